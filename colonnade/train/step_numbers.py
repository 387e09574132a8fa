"""The numbers of a step that the loops and kernels of optimizers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.train.loops.update import NUM_SCALARS
from colonnade.train.optimizers import Optimizer
from colonnade.train.table_config import TableConfig

Array = npt.NDArray[Any]


class StepNumbers:
    """Gives them for tables. Facts: work grows with optimizers and counts of updates that differ, not with tables."""

    def __init__(self, configs: Sequence[TableConfig]) -> None:
        by_id = {id(config.optimizer): config.optimizer for config in configs}
        self._optimizers: list[Optimizer] = list(by_id.values())
        numbers = {key: number for number, key in enumerate(by_id)}
        self._of = np.array([numbers[id(config.optimizer)] for config in configs], np.int64)

    def of(self, updates: Array, changed: Array, step: int) -> Array:
        """float32 [tables, NUM_SCALARS], zeros of tables that do not change.

        updates: how often each table was updated, this time included.   changed: bool [tables].
        step: of the training.
        """
        made = np.zeros((len(self._of), NUM_SCALARS), np.float32)
        tables = np.flatnonzero(changed)
        which, times = self._of[tables], updates[tables]
        most = int(times.max(initial=0)) + 1
        alike, members = np.unique(which * most + times, return_inverse=True)
        numbers = np.zeros((len(alike), NUM_SCALARS), np.float32)
        for own, pair in zip(numbers, alike.tolist(), strict=True):
            optimizer = self._optimizers[pair // most]
            found = optimizer.scalars(pair % most, optimizer.rate(step))
            own[: len(found)] = found
        made[tables] = numbers[members]
        return made
