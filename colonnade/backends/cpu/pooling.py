"""Pooling a batch row whose table rows are all known.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.lookups import slot_of
from colonnade.backends.cpu.rows import (
    OVER,
    PLAIN,
    TIMES,
    add_rows,
    leading,
    max_rows,
)
from colonnade.backends.cpu.scratch import COUNTS, LOOKED_UP
from colonnade.backends.cpu.units import implements, pool_narrow_rows, pool_weighted_rows
from colonnade.backends.lanes import copy_row
from colonnade.backends.memory import kernel, load_i32, load_i64

ONE = np.float32(1)


@kernel
def divisor_of(pooling: int, n: int) -> np.float32:
    """What the sum of n rows is divided by."""
    if pooling == w.POOL_MEAN:
        return np.float32(n)
    return np.float32(np.sqrt(np.float32(n))) if pooling == w.POOL_SQRTN else ONE


@kernel
def scaling(pooling: int, n: int) -> int:
    """How the sum of n rows is scaled: TensorFlow multiplies by the reciprocal where it has up to nine rows."""
    if pooling == w.POOL_SUM:
        return PLAIN
    return TIMES if n < 10 else OVER


@implements(units.pool_rows)
def pool_rows(call: int, d: int, s: int, start: int, n: int) -> int:
    """Pool n batch rows whose lookups lie one after another."""
    if load_i64(d + w.WEIGHTS) != 0:
        return pool_weighted_rows(call, d, s, start, n)
    if load_i64(d + w.FORM) != w.FORM_F32:
        return pool_narrow_rows(call, d, s, start, n)
    dim, pooling, rows = load_i64(d + w.DIM), load_i64(d + w.POOLING), s + LOOKED_UP
    for r in range(n):
        count, out = load_i32(s + COUNTS + 4 * r), slot_of(call, d, start + r)
        if count < 2:
            copy_row(load_i64(rows) if count == 1 else load_i64(d + w.EMPTY), out, dim)
        elif pooling == w.POOL_MAX:
            max_rows(rows, count, True, out, dim)
        else:
            how, factor = scaling(pooling, count), divisor_of(pooling, count)
            add_rows(rows, count, leading(count), out, dim, how, ONE / factor if how == TIMES else factor)
        rows += 8 * count
    return 0
