"""Rows that were not looked up for long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.train.eviction.eviction import Eviction, Numbers, refuse_unless_positive


@dataclass(frozen=True)
class ByAge(Eviction):
    """Rows that no training step looked up in the last `steps`."""

    steps: int

    def __post_init__(self) -> None:
        refuse_unless_positive(self.steps, self, "steps")

    def chosen(self, ids: Numbers, steps: Numbers, counts: Numbers, step: int) -> npt.NDArray[np.int64]:
        return np.flatnonzero(steps <= step - self.steps)
