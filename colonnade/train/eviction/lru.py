"""The least recently looked-up rows, beyond a capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.train.eviction.eviction import Eviction, Numbers, first_of, refuse_unless_positive


@dataclass(frozen=True)
class Lru(Eviction):
    """What is beyond `capacity` rows: the longest not looked up first, of those the least often so, then by id."""

    capacity: int

    def __post_init__(self) -> None:
        refuse_unless_positive(self.capacity, self, "capacity")

    def chosen(self, ids: Numbers, steps: Numbers, counts: Numbers, step: int) -> npt.NDArray[np.int64]:
        return first_of(len(ids) - self.capacity, steps, counts, ids)
