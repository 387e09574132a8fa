"""Pooling a batch row whose table rows are all known.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.intrinsics import kernel, load_f32, load_i32, load_i64
from colonnade.backends.cpu.lookups import slot_of
from colonnade.backends.cpu.rows import (
    OVER,
    PLAIN,
    TIMES,
    add_rows,
    add_weighted,
    copy_row,
    divide,
    leading,
    max_rows,
    max_weighted,
)
from colonnade.backends.cpu.scratch import COUNTS, FACTORS, LOOKED_UP
from colonnade.backends.cpu.units import implements

ONE = np.float32(1)
ZERO = np.float32(0)


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


@kernel
def _pool(d: int, rows: int, n: int, out: int) -> None:
    """One batch row from its table rows, all of which are known."""
    dim, pooling = load_i64(d + w.DIM), load_i64(d + w.POOLING)
    if n == 0:
        copy_row(load_i64(d + w.EMPTY), out, dim)
    elif n == 1:
        copy_row(load_i64(rows), out, dim)
    elif pooling == w.POOL_MAX:
        max_rows(rows, n, True, out, dim)
    else:
        how, factor = scaling(pooling, n), divisor_of(pooling, n)
        add_rows(rows, n, leading(n), out, dim, how, ONE / factor if how == TIMES else factor)


@kernel
def more_weighted(d: int, rows: int, weights: int, n: int, fresh: bool, out: int) -> None:
    """Go on with a weighted sum or maximum."""
    if load_i64(d + w.POOLING) == w.POOL_MAX:
        max_weighted(rows, weights, n, fresh, out, load_i64(d + w.DIM))
    else:
        add_weighted(rows, weights, n, fresh, out, load_i64(d + w.DIM))


@kernel
def weight(d: int, weights: int, n: int, total: np.float32) -> np.float32:
    """The running sum of weights, of their squares for sqrtn."""
    squared = load_i64(d + w.POOLING) == w.POOL_SQRTN
    for i in range(n):
        x = load_f32(weights + 4 * i)
        total += x * x if squared else x
    return total


@kernel
def divide_by_weights(d: int, total: np.float32, out: int) -> None:
    """Scale a finished weighted sum."""
    pooling = load_i64(d + w.POOLING)
    if pooling == w.POOL_MEAN:
        divide(out, load_i64(d + w.DIM), total)
    elif pooling == w.POOL_SQRTN:
        divide(out, load_i64(d + w.DIM), np.float32(np.sqrt(total)))


@kernel
def _pool_weighted(d: int, rows: int, weights: int, n: int, out: int) -> None:
    dim = load_i64(d + w.DIM)
    if n == 0:
        copy_row(load_i64(d + w.EMPTY), out, dim)
        return
    more_weighted(d, rows, weights, n, True, out)
    divide_by_weights(d, weight(d, weights, n, ZERO), out)


@kernel
def _pool_any(d: int, rows: int, weights: int, n: int, out: int) -> None:
    if load_i64(d + w.WEIGHTS) != 0:
        _pool_weighted(d, rows, weights, n, out)
    else:
        _pool(d, rows, n, out)


@implements(units.pool_rows)
def pool_rows(call: int, d: int, s: int, start: int, n: int) -> int:
    """Pool n batch rows whose lookups lie one after another."""
    at = 0
    for r in range(n):
        count = load_i32(s + COUNTS + 4 * r)
        _pool_any(d, s + LOOKED_UP + 8 * at, s + FACTORS + 4 * at, count, slot_of(call, d, start + r))
        at += count
    return 0
