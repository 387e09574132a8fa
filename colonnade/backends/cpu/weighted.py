"""Weighted pooling: `sum of weight * row`, one by one, divided by the sum of weights or the root of that of squares.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
Source: TensorFlow's embedding_lookup_sparse; a divisor of 0 gives 0.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.lookups import slot_of
from colonnade.backends.cpu.rows import add_marked, add_weighted, divide, max_weighted
from colonnade.backends.cpu.scratch import COUNTS, FACTORS, LEAD, LOOKED_UP, WEIGHT
from colonnade.backends.cpu.units import implements, pool_narrow
from colonnade.backends.cpu.widen import put_row
from colonnade.backends.memory import kernel, load_f32, load_i32, load_i64, store_f32, store_i64

ZERO = np.float32(0)


@kernel
def _more(call: int, d: int, s: int, rows: int, weights: int, n: int, fresh: bool, out: int) -> None:
    if load_i64(d + w.FORM) != w.FORM_F32:
        store_i64(s + LEAD, 1 if fresh else 0)
        pool_narrow(call, d, s, rows, n, out)
    elif load_i64(d + w.POOLING) == w.POOL_MAX:
        max_weighted(rows, weights, n, fresh, out, load_i64(d + w.DIM))
    elif load_i64(d + w.POOLING) == w.POOL_MARKS:
        add_marked(rows, weights, n, fresh, out, load_i64(d + w.DIM))
    else:
        add_weighted(rows, weights, n, fresh, out, load_i64(d + w.DIM))


@kernel
def _weight(d: int, weights: int, n: int, total: np.float32) -> np.float32:
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


@implements(units.pool_weighted_rows)
def pool_weighted_rows(call: int, d: int, s: int, start: int, n: int) -> int:
    """Pool n batch rows whose lookups lie one after another."""
    rows, weights = s + LOOKED_UP, s + FACTORS
    for r in range(n):
        count, out = load_i32(s + COUNTS + 4 * r), slot_of(call, d, start + r)
        if count == 0:
            put_row(d, load_i64(d + w.EMPTY), out)
        else:
            _more(call, d, s, rows, weights, count, True, out)
            divide_by_weights(d, _weight(d, weights, count, ZERO), out)
        rows += 8 * count
        weights += 4 * count
    return 0


@implements(units.drain_weighted)
def drain_weighted(call: int, d: int, s: int, pending: int, out: int) -> int:
    """Go on with a long row: all of its pending lookups."""
    _more(call, d, s, s + LOOKED_UP, s + FACTORS, pending, load_i64(s + LEAD) > 0, out)
    store_f32(s + WEIGHT, _weight(d, s + FACTORS, pending, load_f32(s + WEIGHT)))
    store_i64(s + LEAD, 0)
    return 0
