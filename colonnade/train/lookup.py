"""Rows of all tables for the ids of a batch, wherever tables and ids lie.

Legend: F features; N ids of all features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.train.group import TableGroup
from colonnade.train.ids import PackedIds
from colonnade.train.place import Group
from colonnade.train.tables.store import Keys

if TYPE_CHECKING:  # a module of Triton, which a CPU does without
    from colonnade.train.gpu.groups import DeviceGroups

Numbers = npt.NDArray[Any]


class Lookups:
    """What groups of tables are asked for each batch.

    members: of each group, its features.   tables: int64 [F], of each feature its table in its group.
    """

    def __init__(self, groups: Sequence[Group], members: Sequence[Numbers], tables: Numbers) -> None:
        self._groups = [(g, group) for g, group in enumerate(groups) if isinstance(group, TableGroup)]
        on_device = [(g, group) for g, group in enumerate(groups) if not isinstance(group, TableGroup)]
        self._members, self._tables = members, tables
        devices = {group.device for _, group in on_device}
        assert len(devices) < 2, devices
        self.device = devices.pop() if devices else torch.device("cpu")
        self.on_device: DeviceGroups | None = None
        self._numbers = [g for g, _ in on_device]
        if on_device:
            from colonnade.train.gpu.groups import DeviceGroups

            own = [members[g].tolist() for g in self._numbers]
            self.on_device = DeviceGroups([group for _, group in on_device], own, tables.tolist(), self.device)

    @property
    def owners(self) -> list[TableGroup | DeviceGroups]:
        """What learns: each group on the CPU, and all on a device."""
        here: list[TableGroup | DeviceGroups] = [group for _, group in self._groups]
        return here if self.on_device is None else [*here, self.on_device]

    def run(
        self, packed: PackedIds, step: int | None, heard: set[str] | None = None
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """int32 [N], each id's row of its group's matrix, and the groups' matrices, float32 [U, D]; on `device`.

        step: of the training; None: no row is made or noted.   heard: as of `Lookup`.
        Errors: BudgetError, before any table has a new row.
        """
        rows: dict[int, torch.Tensor] = {}
        inverse = torch.empty(len(packed.values), dtype=torch.int32, device=self.device)
        keys = self._distinct_here(packed, inverse) if self._groups else {}
        batch, wanted = None, None
        if self.on_device is not None:
            ids, offsets = packed.values.to(self.device), packed.offsets.to(self.device)
            batch = self.on_device.distinct(offsets, ids, inverse)
        if step is not None:
            for g, group in self._groups:
                group.reserve(keys[g], step)
            if self.on_device is not None and batch is not None:
                wanted = self.on_device.reserve(batch, step)
        for g, group in self._groups:
            rows[g] = group.look_up(keys[g], step, heard).to(self.device)
        if self.on_device is not None and batch is not None:
            rows |= zip(self._numbers, self.on_device.look_up(batch, step, wanted, heard), strict=True)
        return inverse, [rows[g] for g in range(len(rows))]

    def _distinct_here(self, packed: PackedIds, inverse: torch.Tensor) -> dict[int, Keys]:
        """The keys of each group on the CPU. inverse: written."""
        values, offsets = packed.values.cpu().numpy(), packed.offsets.cpu().numpy()
        starts, sizes = offsets[:, 0], offsets[:, -1] - offsets[:, 0]
        found = inverse.numpy() if inverse.device.type == "cpu" else np.empty(len(values), np.int32)
        keys = {}
        for g, group in self._groups:
            own = self._members[g]
            keys[g] = group.distinct(self._tables[own], starts[own], sizes[own], values, found)
        if inverse.device.type != "cpu":
            inverse.copy_(torch.from_numpy(found))
        return keys
