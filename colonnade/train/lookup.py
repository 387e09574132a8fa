"""Rows of all tables for the ids of a batch, wherever tables and ids lie.

Legend: F features; N ids of all features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.train.group import TableGroup
from colonnade.train.ids import PackedIds
from colonnade.train.place import Group

Numbers = npt.NDArray[Any]


class Lookups:
    """What groups of tables are asked for each batch.

    members: of each group, its features.   tables: int64 [F], of each feature its table in its group.
    """

    def __init__(self, groups: Sequence[Group], members: Sequence[Numbers], tables: Numbers) -> None:
        self._groups = [(g, group) for g, group in enumerate(groups) if isinstance(group, TableGroup)]
        self._on_devices = [(g, group) for g, group in enumerate(groups) if not isinstance(group, TableGroup)]
        self._members, self._tables = members, tables
        devices = {group.device for _, group in self._on_devices}
        assert len(devices) < 2, devices
        self.device = devices.pop() if devices else torch.device("cpu")
        self._words = {
            g: [torch.from_numpy(x).to(self.device) for x in (members[g], tables[members[g]])]
            for g, _ in self._on_devices
        }

    def run(self, packed: PackedIds, step: int | None) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """int32 [N], each id's row of its group's matrix, and the groups' matrices, float32 [U, D]; on `device`.

        step: of the training; None: no row is made or noted.
        Errors: BudgetError, before any table on the CPU has a new row.
        """
        rows: dict[int, torch.Tensor] = {}
        inverse = torch.empty(len(packed.values), dtype=torch.int32, device=self.device)
        if self._groups:
            values, offsets = packed.values.cpu().numpy(), packed.offsets.cpu().numpy()
            starts, sizes = offsets[:, 0], offsets[:, -1] - offsets[:, 0]
            found = inverse.numpy() if inverse.device.type == "cpu" else np.empty(len(values), np.int32)
            keys = {}
            for g, group in self._groups:
                own = self._members[g]
                keys[g] = group.distinct(self._tables[own], starts[own], sizes[own], values, found)
            if step is not None:
                for g, group in self._groups:
                    group.reserve(keys[g], step)
            for g, group in self._groups:
                rows[g] = group.look_up(keys[g], step).to(self.device)
            if inverse.device.type != "cpu":
                inverse.copy_(torch.from_numpy(found))
        if self._on_devices:
            ids, ends = packed.values.to(self.device), packed.offsets.to(self.device)
            for g, device_group in self._on_devices:
                members, tables = self._words[g]
                first = ends[members, 0]
                rows[g] = device_group.lookup(tables, first, ends[members, -1] - first, ids, inverse, step)
        return inverse, [rows[g] for g in range(len(rows))]
