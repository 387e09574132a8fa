"""Ids are admitted when they have occurred often enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from colonnade.core.given import is_positive
from colonnade.errors import OptionError
from colonnade.train.admission.admission import Admission, Admitter
from colonnade.train.tables.layout import Layout
from colonnade.train.tables.store import Budget, Fresh, Keys, Store


@dataclass(frozen=True)
class ByCount(Admission):
    """An id gets a row in the step in which it has occurred `count` times. Facts: counted exactly, 32 bytes an id."""

    count: int

    def __post_init__(self) -> None:
        if not is_positive(self.count):
            raise OptionError("an admission that cannot work", got=str(self), want="count: a whole number, at least 1")

    def begin(self, name: str, fresh: Fresh, budget: Budget) -> Admitter:
        bare = replace(fresh, states=np.zeros(0, np.float32))
        return _Counter(self.count, Store(f"counts of {name}", Layout(0), [bare], budget))


class _Counter(Admitter):
    def __init__(self, count: int, store: Store) -> None:
        self.count, self.store = count, store

    @property
    def remembers(self) -> Store:
        return self.store

    @property
    def bytes(self) -> int:
        return self.store.bytes

    def admit(self, keys: Keys, step: int) -> npt.NDArray[np.bool_]:
        rows, _ = self.store.find(_own(keys))
        before = np.zeros(len(keys), np.int64)
        before[rows >= 0] = self.store.counts(rows[rows >= 0])
        admitted: npt.NDArray[np.bool_] = before + keys.counts >= self.count
        return admitted

    def reserve(self, keys: Keys, admitted: npt.NDArray[np.bool_]) -> None:
        self.store.reserve(int((~admitted).sum()))

    def note(self, keys: Keys, admitted: npt.NDArray[np.bool_], step: int) -> None:
        own = _own(keys)
        rows, _ = self.store.find(own)
        self.store.remove(rows[admitted & (rows >= 0)])
        rows[admitted] = -1
        self.store.insert(own, rows, step, ~admitted)
        self.store.touch(own, rows, step)

    def state(self) -> dict[str, torch.Tensor]:
        rows = self.store.rows_of(0)
        parts = (self.store.ids(rows), self.store.steps(rows), self.store.counts(rows))
        return {name: torch.from_numpy(part) for name, part in zip(("ids", "steps", "counts"), parts, strict=True)}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        ids, steps, counts = (state[name].numpy() for name in ("ids", "steps", "counts"))
        self.store.remove(self.store.rows_of(0))
        keys = self.store.keys(0, ids)
        rows, _ = self.store.find(keys)
        self.store.insert(keys, rows)
        self.store.use(rows, steps, counts)


def _own(keys: Keys) -> Keys:
    """The keys in a store that has this table alone; its hash is the same."""
    return Keys(keys.hashes, np.zeros_like(keys.tables), keys.ids, keys.counts)
