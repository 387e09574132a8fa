"""Policies of admission at work on a device: those of all tables of a store are asked at once.

Legend: U distinct keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.train.admission import Admission, ByCount, ByProbability, ReadOnly
from colonnade.train.fresh import group_name
from colonnade.train.gpu.module import kernels
from colonnade.train.gpu.policies import clipped, refuse_unknown
from colonnade.train.gpu.store import Rows, Store
from colonnade.train.gpu.unique import Keys
from colonnade.train.table_config import TableConfig
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Budget, Fresh

Words = tuple[int, int, int]
ALL, NONE, CHANCE, COUNT = range(4)
GETS_ROW, IS_COUNTED = 1, 2
BLOCK, WARPS = 32, 1
"""Lanes of a program: few, as of one that searches a store."""


def _chance(policy: Any, fresh: Fresh) -> Words:
    key = np.uint64(policy.key_of(fresh)).view(np.int64)
    return CHANCE, int(key), int(np.float64(1 - policy.probability).view(np.int64))


POLICIES: dict[type[Admission], Callable[[Any, Fresh], Words]] = {
    ReadOnly: lambda policy, fresh: (NONE, 0, 0),
    ByProbability: _chance,
    ByCount: lambda policy, fresh: (COUNT, clipped(policy.count), 0),
}
"""What `kernels/admit.py` reads of a table with a policy."""


@dataclass(frozen=True)
class Asked:
    """What policies said of keys. marks: int8 [U], 1: gets a row, 2: is counted.   counted: int64 [U], where it is."""

    marks: torch.Tensor
    counted: Rows

    @property
    def wanted(self) -> torch.Tensor:
        """Which keys get a row, bool [U]."""
        return self.marks == GETS_ROW


class Admissions:
    """The policies of a store's tables. Facts: decides as those on the CPU do; waits for nothing but a lack of room.

    bars: bool, which tables make no rows.   decides: whether keys of any other table may be refused.
    Errors: OptionError for policies that no kernel knows.
    """

    def __init__(
        self, configs: Sequence[TableConfig], fresh: Sequence[Fresh], budget: Budget, device: torch.device
    ) -> None:
        self.device = device
        refuse_unknown("admission", configs, [[c.admission] if c.admission else [] for c in configs], POLICIES)
        self._policies = np.array([_words_of(*each) for each in zip(configs, fresh, strict=True)], np.int64)
        kinds = set(self._policies[:, 0].tolist())
        self._chance = CHANCE in kinds
        self.store: Store | None = None
        if COUNT in kinds:
            bare = [replace(own, states=np.zeros(0, np.float32)) for own in fresh]
            self.store = Store(f"counts of {group_name(configs)}", Layout(0), bare, budget, device)
        self._nothing = torch.zeros(1, dtype=torch.int64, device=device)
        self._frozen = np.zeros(len(configs), np.bool_)
        self._upload()

    def of_table(self, number: int) -> Counted | None:
        """What is remembered for a table; None: it has no policy."""
        kind = self._policies[number, 0]
        return None if kind == ALL else Counted(self.store if kind == COUNT else None, number)

    @property
    def bytes(self) -> int:
        """Memory of the budget that is taken."""
        return 0 if self.store is None else self.store.bytes

    def follow(self, frozen: npt.NDArray[np.bool_]) -> None:
        """Know which tables stand still: these admit none, whatever their policies say."""
        if not np.array_equal(frozen, self._frozen):
            self._frozen = frozen.copy()
            self._upload()

    def _upload(self) -> None:
        words = self._policies.copy()
        words[self._frozen, 0] = NONE
        self.bars = words[:, 0] == NONE
        self.decides = bool(np.isin(words[:, 0], (CHANCE, COUNT)).any())
        self._words = torch.from_numpy(words).to(self.device)
        self.frozen = torch.from_numpy(self._frozen).to(self.device)

    # --- asking -----------------------------------------------------------------------------------------------------
    def has_room(self, keys: int) -> bool:
        """Whether what `note` remembers of so many keys surely fits. Facts: does not wait for the device."""
        return self.store is None or (self.store.has_room(keys) and self.store.lists_all)

    def ask(self, keys: Keys, rows: Rows, step: int) -> Asked:
        """Which of the keys that have no rows get some now. Facts: changes nothing."""
        count = len(keys)
        marks = torch.empty(count, dtype=torch.int8, device=self.device)
        counted = torch.empty(count if self.store is not None else 1, dtype=torch.int64, device=self.device)
        nothing = self._nothing
        given = (nothing, 1, nothing, 0, 0) if self.store is None else self.store.map
        kernels(self.device.type, "admit").launch(
            "admit", -(-count // BLOCK), *given, self._words, keys.hashes, keys.tables, keys.ids, keys.counts, rows,
            marks, counted, count, step, CHANCE=self._chance, COUNTED=self.store is not None, BLOCK=BLOCK,
            num_warps=WARPS,
        )  # fmt: skip
        return Asked(marks, counted)

    def reserve(self, new: int, spare: int) -> None:
        """Make room for `new` that `note` will remember first. spare: as of `Store`.   Errors: BudgetError."""
        if self.store is not None:
            self.store.reserve(new, spare)
            self.store.list_all()

    def new(self, asked: Asked) -> torch.Tensor:
        """int64 [2]: how many keys get a row, and how many are counted for the first time."""
        first = asked.marks == IS_COUNTED
        if self.store is not None:
            first &= asked.counted < 0
        return torch.stack((asked.wanted.sum(), first.sum()))

    def note(self, keys: Keys, asked: Asked, step: int) -> None:
        """Remember which keys were asked for and admitted. Facts: there is room."""
        store = self.store
        if store is None or len(keys) == 0:
            return
        waits = asked.marks == IS_COUNTED
        store.remove_those(torch.where(asked.wanted, asked.counted, -1))
        rows = torch.where(waits, asked.counted, -1)
        store.touch(keys, rows, step)
        store.insert(keys, rows, step, waits, torch.empty(len(keys), 0, dtype=torch.float32, device=self.device))


class Counted:
    """What a table's policy remembers, as its state. store: of counts; None: it remembers nothing."""

    def __init__(self, store: Store | None, number: int) -> None:
        self.store, self.number = store, number

    @property
    def remembers(self) -> Store | None:
        """As of `Admitter`; the store of all tables."""
        return self.store

    def state(self) -> dict[str, torch.Tensor]:
        """As of `Admitter`; on the device."""
        if self.store is None:
            return {}
        rows = self.store.rows_of(self.number)
        return {"ids": self.store.ids(rows), "steps": self.store.steps(rows), "counts": self.store.counts(rows)}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """As of `Admitter`; the tensors may lie anywhere."""
        if self.store is None:
            assert not state
            return
        self.store.remove(self.store.rows_of(self.number))
        keys = self.store.keys(self.number, state["ids"])
        rows = torch.full((len(keys),), -1, dtype=torch.int64, device=self.store.device)
        self.store.insert(keys, rows)
        self.store.use(rows, state["steps"], state["counts"])


def _words_of(config: TableConfig, fresh: Fresh) -> Words:
    policy = config.admission
    return (ALL, 0, 0) if policy is None else POLICIES[type(policy)](policy, fresh)
