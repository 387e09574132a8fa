"""The tables that share a store: looked up and updated together.

Legend: U distinct keys of a batch; D embedding_dim; F features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.memory import address_of
from colonnade.train.admission import Admitter
from colonnade.train.compiled import LOOPS, Loops
from colonnade.train.fresh import fresh_of, group_name
from colonnade.train.gradients import GradientPolicy
from colonnade.train.loops.share import COUNT
from colonnade.train.optimizers.optimizer import LARGEST
from colonnade.train.pending import Lookup, Pending
from colonnade.train.reduce.unique import Unique
from colonnade.train.step_numbers import StepNumbers
from colonnade.train.table_config import TableConfig
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Budget, Keys, Rows, Store
from colonnade.train.tables.table import DynamicTable

Array = npt.NDArray[Any]
Asked: TypeAlias = "tuple[Admitter, Keys, npt.NDArray[np.bool_]]"


@dataclass(frozen=True)
class Update:
    """What rows learn: each row once. counts: how often each occurred.   bad: bool [U], which rows have a gradient
    that is NaN, infinite, or more than their optimizer takes.
    """

    tables: Array
    rows: Rows
    counts: Array
    grads: torch.Tensor
    bad: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    @property
    def is_bad(self) -> bool:
        """Whether any gradient is NaN, infinite, or more than its optimizer takes."""
        return bool(self.bad.any())

    def limited(self, policy: GradientPolicy) -> Update:
        """With gradients limited one by one and row by row."""
        return replace(self, grads=policy.limited(self.grads))

    def scaled(self, factor: float) -> Update:
        """With gradients multiplied."""
        return replace(self, grads=self.grads * factor)

    @property
    def square_norm(self) -> float:
        """Of the gradients of rows that learn something."""
        return float(self.grads[torch.from_numpy(self.rows >= 0)].double().square().sum())


class TableGroup:
    """Tables of one layout and one kind of optimizer."""

    def __init__(self, configs: Sequence[TableConfig], seed: int, budget: Budget) -> None:
        first = configs[0]
        states = first.optimizer.num_states(first.embedding_dim)
        fresh = [fresh_of(config, seed) for config in configs]
        self.configs, self.device = tuple(configs), torch.device("cpu")
        layout = Layout(first.embedding_dim, first.dtype, states)
        self.store = Store(group_name(configs), layout, fresh, budget)
        self.tables = [DynamicTable(config.name, self.store, number) for number, config in enumerate(configs)]
        self.admitters = [
            None if config.admission is None else config.admission.begin(config.name, own, budget)
            for config, own in zip(configs, fresh, strict=True)
        ]
        self.frozen = np.array([not config.trainable for config in configs])
        self.updates = np.zeros(len(configs), np.int64)  # how often each table was updated
        self.evicted: list[list[Array]] = [[] for _ in configs]
        self.pending: Pending[Keys, Rows] = Pending(self.store.name)
        self._numbers = StepNumbers(configs)
        self._unique = Unique()
        self._means = np.array([config.repeats == "mean" for config in configs])

    @cached_property
    def _loops(self) -> Loops:
        """Compiled when they are first asked for: tables that move to a device do without."""
        return LOOPS.warm()

    # --- forward ----------------------------------------------------------------------------------------------------
    def distinct(self, tables: Array, starts: Array, sizes: Array, values: Array, inverse: Array) -> Keys:
        """The features' distinct ids, as keys.

        tables, starts, sizes: int64 [F].   inverse: written.
        """
        return self._unique.run(self.store, tables, starts, sizes, values, inverse)

    def reserve(self, keys: Keys, step: int) -> None:
        """Make room for what `look_up` will make. Errors: BudgetError, before any row is made or noted."""
        bounded = self.store.budget.most is not None
        if bounded and (any(self.admitters) or not self.store.takes(len(keys))):
            self._asked(keys, self.store.find(keys)[0], step)

    def look_up(self, keys: Keys, step: int | None, heard: set[str] | None = None) -> torch.Tensor:
        """The rows of keys, `[U, D]`; the tables' defaults where there is none.

        step: of the training; None: no row is made or noted.   heard: as of `Lookup`.
        Errors: BudgetError, before anything is changed.
        """
        if step is None:
            return torch.from_numpy(self.store.look_up(keys)[1])
        rows, read = self._looked_up(keys, step)
        found = torch.from_numpy(read)
        if torch.is_grad_enabled():
            found.requires_grad_()
            self.pending.add(Lookup(keys, rows, found, self.store.version, heard))
        return found

    def _looked_up(self, keys: Keys, step: int) -> tuple[Rows, npt.NDArray[np.float32]]:
        """The rows of keys, made where they are missing and admitted, and their values.

        Errors: BudgetError, before anything is changed.
        """
        # Where memory may be refused, to a store or to what admitters remember, nothing is noted before it is there.
        at_once = self.store.takes(len(keys)) and (self.store.budget.most is None or not any(self.admitters))
        rows, read, missing = self.store.look_up(keys, step if at_once else None)
        again = np.flatnonzero(rows < 0) if at_once else np.arange(len(rows))
        if missing:
            self._insert(keys, rows, step)
        if missing or not at_once:
            self.store.read(keys, rows, again, step, read)
        return rows, read

    def _insert(self, keys: Keys, rows: Rows, step: int) -> None:
        wanted, asked = self._asked(keys, rows, step)
        for admitter, own, admitted in asked:
            admitter.note(own, admitted, step)
        self.store.insert(keys, rows, step, wanted)

    def _asked(self, keys: Keys, rows: Rows, step: int) -> tuple[npt.NDArray[np.bool_], list[Asked]]:
        """Which keys get a row, and the admitters that were asked, with what they said; there is room for both."""
        wanted: npt.NDArray[np.bool_] = rows < 0
        asked: list[Asked] = []
        for table, admitter in enumerate(self.admitters):
            if not self.frozen[table] and admitter is None:
                continue
            chosen = np.flatnonzero(wanted & (keys.tables == table))
            if self.frozen[table] or admitter is None:
                wanted[chosen] = False
            elif len(chosen):
                own = keys.take(chosen)
                wanted[chosen] = admitted = admitter.admit(own, step)
                asked.append((admitter, own, admitted))
        self.store.reserve(int(wanted.sum()))
        for admitter, own, admitted in asked:
            admitter.reserve(own, admitted)
        return wanted, asked

    # --- backward ---------------------------------------------------------------------------------------------------
    def learned(self, scale: float, policy: GradientPolicy) -> Update | None:
        """What the lookups since the last step learned, divided by `scale`; None: nothing."""
        parts = [self._part(lookup) for lookup in self.pending.learned()]
        if not parts:
            return None
        update = parts[0] if len(parts) == 1 else self._joined(parts)
        grads = update.grads if scale == 1 else update.grads / scale
        if self._means.any():
            mean = self._means[update.tables]
            grads = grads / torch.from_numpy(np.where(mean, update.counts, 1).astype(np.float32))[:, None]
        bad = self._too_large(update.rows, grads, policy.limits)
        rows = np.where(bad, -1, update.rows) if policy.not_finite == "skip_rows" else update.rows
        return Update(update.tables, rows, update.counts, grads, bad)

    def _part(self, lookup: Lookup[Keys, Rows]) -> Update:
        rows = lookup.rows
        if lookup.version != self.store.version:  # what had no row was the default, which learns nothing
            rows = np.where(rows < 0, -1, self.store.find(lookup.keys)[0])
        still = self.frozen | lookup.unheard([config.name for config in self.configs])
        if still.any():
            rows = np.where(still[lookup.keys.tables], -1, rows)
        assert lookup.values.grad is not None
        return Update(lookup.keys.tables, rows, lookup.keys.counts, lookup.values.grad.detach().contiguous())

    def _joined(self, parts: Sequence[Update]) -> Update:
        """Several lookups as one: the gradients of a row are added in their order."""
        rows = np.concatenate([part.rows for part in parts])
        inverse = np.empty(len(rows), np.int32)
        one = np.zeros(1, np.int64)
        distinct = self._unique.run(self.store, one, one, np.array([len(rows)]), rows, inverse)
        numbers = torch.from_numpy(inverse)
        grads = torch.zeros(len(distinct), self.store.layout.embedding_dim, dtype=torch.float32)
        grads.index_add_(0, numbers, torch.cat([part.grads for part in parts]))
        counts = np.bincount(inverse, np.concatenate([part.counts for part in parts]), len(distinct))
        tables = np.empty(len(distinct), np.int64)
        tables[inverse] = np.concatenate([part.tables for part in parts])
        return Update(tables, distinct.ids, counts, grads)

    def _too_large(self, rows: Rows, grads: torch.Tensor, limited: bool) -> npt.NDArray[np.bool_]:
        """Which rows have a gradient that is NaN, infinite, or more than their optimizer can take, `[U]`.

        limited: whether gradients will be limited before it gets them.
        """
        bad = np.empty(len(rows), np.bool_)
        dim, most = (
            self.store.layout.embedding_dim,
            np.array([LARGEST if limited else self.configs[0].optimizer.most], np.float32),
        )
        operands = (grads.data_ptr(), len(bad), dim, address_of(most), address_of(bad.view(np.uint8)))
        self._loops.share("too_large", operands, (4 * dim, COUNT, 0, 0, 1))
        return bad & (rows >= 0)

    def refused(self, update: Update) -> Iterator[str]:
        """A line for each table of which a gradient is more than it may be."""
        for number, config in enumerate(self.configs):
            rows = update.rows[update.bad & (update.tables == number)]
            if len(rows):
                yield f"table {config.name!r}: {len(rows)} ids, among them {self.store.ids(rows[:3]).tolist()}"

    def apply(self, update: Update, step: int) -> None:
        """Update the rows that are not -1."""
        learns = update.rows >= 0
        tables = update.tables if learns.all() else update.tables[learns]
        changed = np.bincount(tables, minlength=len(self.configs)) > 0
        self.updates += changed
        scalars = self._numbers.of(self.updates, changed, step)
        grads = update.grads.contiguous()
        at = (address_of(update.rows), address_of(update.tables), grads.data_ptr())
        operands = (self.store.at, *at, len(update.rows), address_of(scalars))
        strides = (0, 8, 8, 4 * self.store.layout.embedding_dim, COUNT, 0)
        self._loops.share(self.configs[0].optimizer.loop, operands, strides)

    # --- eviction ---------------------------------------------------------------------------------------------------
    def evict(self, step: int) -> dict[str, int]:
        """Remove the rows that the tables' policies give up; gives how many of each table."""
        removed: dict[str, int] = {}
        for number, config in enumerate(self.configs):
            if self.frozen[number]:
                continue
            for policy in config.eviction:
                rows = self.store.rows_of(number)
                store = self.store
                chosen = rows[policy.chosen(store.ids(rows), store.steps(rows), store.counts(rows), step)]
                if len(chosen):
                    self.evicted[number].append(self.store.ids(chosen))
                    self.store.remove(chosen)
                    removed[config.name] = removed.get(config.name, 0) + len(chosen)
        return removed

    def evicted_ids(self, table: int) -> Array:
        """The ids that were evicted since they were last taken, and have no row now; each once."""
        parts = self.evicted[table]
        ids = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        gone: Array = ids[self.store.find(self.store.keys(table, ids))[0] < 0]
        return gone

    # --- state ------------------------------------------------------------------------------------------------------
    @property
    def bytes(self) -> int:
        """Memory of the budget that its rows and policies take."""
        return self.store.bytes + sum(admitter.bytes for admitter in self.admitters if admitter is not None)

    def saved(self, number: int, empty: bool) -> dict[str, torch.Tensor]:
        """A table's ids, values, states and use. empty: of no rows."""
        store = self.store
        rows = np.empty(0, np.int64) if empty else store.rows_of(number)
        values = torch.from_numpy(store.values(rows))
        return {
            "ids": torch.from_numpy(store.ids(rows).copy()),
            "values": values.view(torch.bfloat16) if self.configs[number].dtype == "bfloat16" else values,
            "states": torch.from_numpy(store.states(rows)),
            "use": torch.from_numpy(np.stack((store.steps(rows), store.counts(rows)), 1)),
        }

    def fill(self, number: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Give a table that is empty the rows that `saved` gave of one."""
        store, given = self.store, {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        keys, values, use = store.keys(number, given["ids"].numpy()), given["values"], given["use"].numpy()
        rows: Rows = np.full(len(keys), -1, np.int64)
        store.insert(keys, rows)
        store.set_values(rows, (values.view(torch.uint16) if values.dtype == torch.bfloat16 else values).numpy())
        store.set_states(rows, given["states"].numpy())
        store.use(rows, use[:, 0], use[:, 1])
