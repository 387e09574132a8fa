"""The numbers of a step that the loops and kernels of optimizers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.train.loops.update import NUM_SCALARS
from colonnade.train.table_config import TableConfig

Array = npt.NDArray[Any]


def step_numbers(configs: Sequence[TableConfig], updates: Array, changed: Array, step: int) -> Array:
    """float32 [tables, NUM_SCALARS], zeros of tables that do not change.

    updates: how often each table was updated, this time included.   changed: bool [tables].   step: of the training.
    """
    made = np.zeros((len(configs), NUM_SCALARS), np.float32)
    alike: dict[tuple[int, int], list[int]] = {}
    tables = np.flatnonzero(changed)
    for table, times in zip(tables.tolist(), updates[tables].tolist(), strict=True):
        alike.setdefault((id(configs[table].optimizer), times), []).append(table)
    for (_, times), members in alike.items():
        optimizer = configs[members[0]].optimizer
        numbers = optimizer.scalars(times, optimizer.rate(step))
        made[members, : len(numbers)] = numbers
    return made
