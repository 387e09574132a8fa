"""Policies of eviction at work on a device: those of all tables of a store are asked at once.

Legend: R rows of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.train.eviction import ByAge, Eviction, Lfu, Lru
from colonnade.train.gpu.policies import clipped, refuse_unknown
from colonnade.train.gpu.store import Rows, Store
from colonnade.train.table_config import TableConfig

AGE, LRU, LFU = range(1, 4)
AGED, FULL = 1, 2

POLICIES: dict[type[Eviction], Callable[[Any], tuple[int, int]]] = {
    ByAge: lambda policy: (AGE, clipped(policy.steps)),
    Lru: lambda policy: (LRU, clipped(policy.capacity)),
    Lfu: lambda policy: (LFU, clipped(policy.capacity)),
}
"""What `kernels/evict.py` reads of a table with a policy."""


class Evictions:
    """The policies of a store's tables, one after the other. Errors: OptionError for policies that no kernel knows."""

    def __init__(self, configs: Sequence[TableConfig], store: Store) -> None:
        refuse_unknown("eviction", configs, [list(config.eviction) for config in configs], POLICIES)
        self._store = store
        rounds = max((len(config.eviction) for config in configs), default=0)
        self._rounds = np.zeros((rounds, len(configs), 2), np.int64)
        for number, config in enumerate(configs):
            for k, policy in enumerate(config.eviction):
                self._rounds[k, number] = POLICIES[type(policy)](policy)

    def run(self, step: int, frozen: npt.NDArray[np.bool_]) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Remove the rows that are given up; gives tables and the ids that each gave up, policy by policy.

        Facts: tables that stand still give up none. Waits for the device.
        """
        given_up: list[tuple[int, npt.NDArray[np.int64]]] = []
        for policies in self._rounds:
            kept = np.where(frozen[:, None], 0, policies)
            rows = self._chosen(kept, step) if kept.any() else None
            if rows is not None and len(rows):
                keys = torch.stack((self._store.tables_of(rows), self._store.ids(rows))).cpu().numpy()
                self._store.remove(rows)
                given_up += [(int(table), keys[1, keys[0] == table]) for table in np.unique(keys[0])]
        return given_up

    def _chosen(self, policies: npt.NDArray[np.int64], step: int) -> Rows:
        on_device = torch.from_numpy(policies).to(self._store.device)
        marks = self._store.mark_old(on_device, step)
        aged = (marks == AGED).nonzero()[:, 0]
        if not (policies[:, 0] > AGE).any():
            return aged
        return torch.cat((aged, self._beyond((marks == FULL).nonzero()[:, 0], on_device)))

    def _beyond(self, rows: Rows, policies: torch.Tensor) -> Rows:
        """Of all rows of tables that have more than they keep, the first to go."""
        store = self._store
        tables, steps, counts, ids = store.tables_of(rows), store.steps(rows), store.counts(rows), store.ids(rows)
        recent = policies[tables, 0] == LRU
        order = ids.argsort()
        for by in (torch.where(recent, counts, steps), torch.where(recent, steps, counts), tables):
            order = order[by[order].argsort(stable=True)]
        num_rows = tables.bincount(minlength=len(policies))
        place = torch.arange(len(rows), device=store.device) - (num_rows.cumsum(0) - num_rows)[tables[order]]
        return rows[order[place < (num_rows - policies[:, 1])[tables[order]]]]
