"""Pooling rows of few bits: sums read them as they add; for all else, a few rows at a time are turned into float32 in
scratch memory and pooled as others are.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
Facts: the sums are those of float32 rows of the same values, bit by bit.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.lookups import slot_of
from colonnade.backends.cpu.pooling import divisor_of, scaling
from colonnade.backends.cpu.rows import (
    PLAIN,
    TIMES,
    add_marked,
    add_weighted,
    leading,
    max_rows,
    max_weighted,
    scale,
)
from colonnade.backends.cpu.scratch import (
    COUNTS,
    FACTORS,
    LEAD,
    LOOKED_UP,
    WIDENED,
    WIDENED_COUNT,
    WIDENED_DIM,
    WIDENED_ROWS,
)
from colonnade.backends.cpu.units import implements
from colonnade.backends.cpu.widen import add_narrow, put_row, widen
from colonnade.backends.memory import kernel, load_i32, load_i64, store_i64

ONE = np.float32(1)


@kernel
def _pool(d: int, s: int, weights: int, n: int, lead: int, out: int, dim: int) -> None:
    """Begin or go on with the pooling of the rows in scratch memory."""
    rows, weighted, is_max = s + WIDENED_ROWS, load_i64(d + w.WEIGHTS) != 0, load_i64(d + w.POOLING) == w.POOL_MAX
    if load_i64(d + w.POOLING) == w.POOL_MARKS:
        add_marked(rows, weights, n, lead > 0, out, dim)
        return
    if weighted and is_max:
        max_weighted(rows, weights, n, lead > 0, out, dim)
    elif weighted:
        add_weighted(rows, weights, n, lead > 0, out, dim)
    else:
        max_rows(rows, n, lead > 0, out, dim)


@implements(units.pool_narrow)
def pool_narrow(call: int, d: int, s: int, rows: int, n: int, out: int) -> int:
    """Begin a row (LEAD > 0) or go on with it: n more lookups, not scaled.

    Facts: `rows` lies in LOOKED_UP, n >= 1; an unweighted sum takes LEAD rows and a multiple of GROUP.
    """
    dim, form, first = load_i64(d + w.DIM), load_i64(d + w.FORM), load_i64(s + LEAD)
    if load_i64(d + w.WEIGHTS) == 0 and load_i64(d + w.POOLING) != w.POOL_MAX:
        add_narrow(form, rows, n, first, out, dim, PLAIN, ONE)
        return 0
    weights = s + FACTORS + ((rows - s - LOOKED_UP) >> 1)
    for i in range(WIDENED_COUNT):
        store_i64(s + WIDENED_ROWS + 8 * i, s + WIDENED + 4 * WIDENED_DIM * i)
    for begin in range(0, dim, WIDENED_DIM):
        part, lead, at = min(WIDENED_DIM, dim - begin), first, 0
        while at < n:
            count = min(WIDENED_COUNT, n - at)
            for i in range(count):
                widen(form, load_i64(rows + 8 * (at + i)), begin, part, dim, load_i64(s + WIDENED_ROWS + 8 * i))
            _pool(d, s, weights + 4 * at, count, lead, out + 4 * begin, part)
            lead = 0
            at += count
    return 0


@implements(units.pool_narrow_rows)
def pool_narrow_rows(call: int, d: int, s: int, start: int, n: int) -> int:
    """Pool n batch rows without weights whose lookups lie one after another."""
    dim, pooling, rows = load_i64(d + w.DIM), load_i64(d + w.POOLING), s + LOOKED_UP
    for r in range(n):
        count, out = load_i32(s + COUNTS + 4 * r), slot_of(call, d, start + r)
        if count < 2:
            put_row(d, load_i64(rows) if count == 1 else load_i64(d + w.EMPTY), out)
        else:
            store_i64(s + LEAD, leading(count))
            units.pool_narrow(call, d, s, rows, count, out)
            if pooling != w.POOL_MAX:
                how, factor = scaling(pooling, count), divisor_of(pooling, count)
                scale(out, dim, how, ONE / factor if how == TIMES else factor)
        rows += 8 * count
    return 0
