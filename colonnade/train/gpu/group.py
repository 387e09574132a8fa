"""The tables that share a store on a device: what `TableGroup` is on the CPU.

Legend: U distinct keys of a batch; D embedding_dim; F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from colonnade.train.fresh import fresh_of, group_name
from colonnade.train.gpu.admission import Admissions
from colonnade.train.gpu.eviction import Evictions
from colonnade.train.gpu.store import Rows, Store
from colonnade.train.gpu.table import DeviceTable
from colonnade.train.gpu.unique import Keys
from colonnade.train.pending import Lookup, Pending
from colonnade.train.table_config import TableConfig
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Budget

DeviceLookup: TypeAlias = Lookup[Keys, Rows]


@dataclass(frozen=True)
class DeviceUpdate:
    """What rows learn: each row once. counts: how often each occurred."""

    tables: torch.Tensor
    rows: Rows
    counts: torch.Tensor
    grads: torch.Tensor


class DeviceGroup:
    """Tables of one layout and one kind of optimizer; looked up with all others by `DeviceGroups`.

    Errors: OptionError for policies that no kernel knows.
    """

    def __init__(self, configs: Sequence[TableConfig], seed: int, budget: Budget, device: torch.device) -> None:
        first = configs[0]
        states = first.optimizer.num_states(first.embedding_dim)
        fresh = [fresh_of(config, seed) for config in configs]
        layout = Layout(first.embedding_dim, first.dtype, states)
        self.configs, self.device = tuple(configs), device
        self.store = Store(group_name(configs), layout, fresh, budget, device)
        self.tables = [DeviceTable(config.name, self.store, number) for number, config in enumerate(configs)]
        self.admissions = Admissions(configs, fresh, budget, device)
        self.admitters = [self.admissions.of_table(number) for number in range(len(configs))]
        self._evictions = Evictions(configs, self.store)
        self.frozen = np.array([not config.trainable for config in configs])
        self.updates = np.zeros(len(configs), np.int64)
        self.evicted: list[list[Any]] = [[] for _ in configs]
        self.pending: Pending[Keys, Rows] = Pending(self.store.name)
        means = [config.repeats == "mean" for config in configs]
        self._means = torch.tensor(means, dtype=torch.bool, device=device) if any(means) else None

    # --- backward ---------------------------------------------------------------------------------------------------
    def learned(self, scale: float) -> DeviceUpdate | None:
        """What the lookups since the last step learned, divided by `scale`; None: nothing."""
        parts = [self._part(lookup) for lookup in self.pending.learned()]
        if not parts:
            return None
        update = parts[0] if len(parts) == 1 else _joined(parts)
        grads = update.grads if scale == 1 else update.grads / scale
        if self._means is not None:
            times = torch.where(self._means[update.tables.long()], update.counts, 1)
            grads = grads / times.float()[:, None]
        return replace(update, grads=grads)

    def _part(self, lookup: DeviceLookup) -> DeviceUpdate:
        rows = lookup.rows
        if lookup.version != self.store.version:  # what had no row was the default, which learns nothing
            rows = torch.where(rows < 0, -1, self.store.find(lookup.keys))
        unheard = lookup.unheard([config.name for config in self.configs])
        if any(unheard):
            still = torch.tensor(unheard, dtype=torch.bool, device=self.device)
            rows = torch.where(still[lookup.keys.tables.long()], -1, rows)
        assert lookup.values.grad is not None
        return DeviceUpdate(lookup.keys.tables, rows, lookup.keys.counts, lookup.values.grad.detach().contiguous())

    # --- eviction ---------------------------------------------------------------------------------------------------
    def evict(self, step: int) -> dict[str, int]:
        """Remove the rows that the tables' policies give up; gives how many of each table."""
        removed: dict[str, int] = {}
        for number, ids in self._evictions.run(step, self.frozen):
            self.evicted[number].append(ids)
            name = self.configs[number].name
            removed[name] = removed.get(name, 0) + len(ids)
        return removed

    def evicted_ids(self, table: int) -> Any:
        """The ids that were evicted since they were last taken, and have no row now, in numpy; each once."""
        parts = self.evicted[table]
        ids = torch.from_numpy(np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64))
        return ids[self.store.find(self.store.keys(table, ids)).cpu() < 0].numpy()

    # --- state ------------------------------------------------------------------------------------------------------
    @property
    def bytes(self) -> int:
        """Memory of the budget that its rows and policies take."""
        return self.store.bytes + self.admissions.bytes

    def saved(self, number: int, empty: bool) -> dict[str, torch.Tensor]:
        """As of `TableGroup`; on the device."""
        store = self.store
        rows = torch.empty(0, dtype=torch.int64, device=self.device) if empty else store.rows_of(number)
        use = torch.stack((store.steps(rows), store.counts(rows)), 1)
        return {"ids": store.ids(rows), "values": store.values(rows), "states": store.states(rows), "use": use}

    def fill(self, number: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """As of `TableGroup`; the tensors may lie anywhere."""
        store, use = self.store, tensors["use"]
        keys = store.keys(number, tensors["ids"])
        rows = torch.full((len(keys),), -1, dtype=torch.int64, device=self.device)
        store.insert(keys, rows)
        store.set_values(rows, tensors["values"])
        store.set_states(rows, tensors["states"])
        store.use(rows, use[:, 0], use[:, 1])


def _joined(parts: Sequence[DeviceUpdate]) -> DeviceUpdate:
    """Several lookups as one: the gradients of a row are added."""
    rows, numbers = torch.cat([part.rows for part in parts]).unique(return_inverse=True)
    given = torch.cat([part.grads for part in parts])
    grads = given.new_zeros(len(rows), given.shape[1]).index_add_(0, numbers, given)
    counts = torch.cat([part.counts for part in parts])
    counts = counts.new_zeros(len(rows)).index_add_(0, numbers, counts)
    tables = counts.new_empty(len(rows)).scatter_(0, numbers, torch.cat([part.tables for part in parts]))
    return DeviceUpdate(tables, rows, counts, grads)
