"""Batch rows with more elements or tokens than a tile: counted first, then pooled a tile at a time.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.elements import filter_tokens
from colonnade.backends.cpu.lookups import slot_of
from colonnade.backends.cpu.offsets import first_element, offsets_of
from colonnade.backends.cpu.pooling import divisor_of, scaling
from colonnade.backends.cpu.rows import GROUP, PLAIN, TIMES, add_rows, leading, max_rows, scale
from colonnade.backends.cpu.scratch import CURSOR, FIRST_ROW, KEEP, LEAD, LOOKED_UP, NUM_ROWS, TILE, TOKENS, WEIGHT
from colonnade.backends.cpu.units import (
    drain_weighted,
    filter_elements,
    implements,
    load_split,
    look_up_elements,
    look_up_tokens,
    next_tokens,
    pool_narrow,
)
from colonnade.backends.cpu.weighted import divide_by_weights
from colonnade.backends.cpu.widen import put_row
from colonnade.backends.memory import kernel, load_f32, load_i64, load_u8, store_f32, store_i64

NO_BYTE = np.uint8(0)
ONE = np.float32(1)
ZERO = np.float32(0)


@kernel
def _kept(keep: int, n: int) -> int:
    total = 0
    for i in range(n):
        if load_u8(keep + i) != NO_BYTE:
            total += 1
    return total


@kernel
def _count_row(call: int, d: int, s: int, row: int) -> int:
    """The lookups of one batch row: TensorFlow's order of summation depends on it."""
    offsets, width, split = offsets_of(call, d), load_i64(d + w.WIDTH), load_i64(d + w.SEPARATOR_WIDTH) > 0
    first, last = first_element(offsets, width, row), first_element(offsets, width, row + 1)
    if not split and load_i64(d + w.FILTERS) == 0:
        return last - first
    total = 0
    for element in range(first, last, TILE):
        n = min(TILE, last - element)
        if split:
            load_split(call, d, s, element, n)
            while load_i64(s + CURSOR) < n:
                count = next_tokens(call, d, s, n, TILE)
                filter_tokens(d, s, s + TOKENS, count, s + KEEP)
                total += _kept(s + KEEP, count)
        else:
            filter_elements(call, d, s, element, n, s + KEEP)
            total += _kept(s + KEEP, n)
    return total


@implements(units.drain)
def drain(call: int, d: int, s: int, pending: int, out: int) -> int:
    """Pool what can be pooled without the rest; gives the number of lookups left over."""
    lead, dim, rows = load_i64(s + LEAD), load_i64(d + w.DIM), s + LOOKED_UP
    narrow = load_i64(d + w.FORM) != w.FORM_F32
    if pending == 0:
        return 0
    if load_i64(d + w.WEIGHTS) != 0:
        return drain_weighted(call, d, s, pending, out)
    if load_i64(d + w.POOLING) == w.POOL_MAX:
        if narrow:
            pool_narrow(call, d, s, rows, pending, out)
        else:
            max_rows(rows, pending, lead > 0, out, dim)
        store_i64(s + LEAD, 0)
        return 0
    if pending < lead:
        return pending
    ready = lead + (pending - lead) // GROUP * GROUP
    if ready > 0:
        if narrow:
            pool_narrow(call, d, s, rows, ready, out)
        else:
            add_rows(rows, ready, lead, out, dim, PLAIN, ONE)
        store_i64(s + LEAD, 0)
    for i in range(ready, pending):
        store_i64(rows + 8 * (i - ready), load_i64(rows + 8 * i))
    return pending - ready


@implements(units.end_long_row)
def end_long_row(call: int, d: int, s: int, total: int, out: int) -> int:
    """Scale a finished sum."""
    pooling = load_i64(d + w.POOLING)
    if load_i64(d + w.WEIGHTS) != 0:
        divide_by_weights(d, load_f32(s + WEIGHT), out)
    elif pooling != w.POOL_MAX:
        how, factor = scaling(pooling, total), divisor_of(pooling, total)
        scale(out, load_i64(d + w.DIM), how, ONE / factor if how == TIMES else factor)
    return 0


@kernel
def _long_row(call: int, d: int, s: int, row: int) -> None:
    """Pool one batch row, a tile at a time."""
    out, offsets, width = slot_of(call, d, row), offsets_of(call, d), load_i64(d + w.WIDTH)
    total = _count_row(call, d, s, row)
    if total == 0:
        put_row(d, load_i64(d + w.EMPTY), out)
        return
    store_i64(s + FIRST_ROW, row)
    store_i64(s + NUM_ROWS, 1)
    store_i64(s + LEAD, leading(total))
    store_f32(s + WEIGHT, ZERO)
    pending = 0
    last = first_element(offsets, width, row + 1)
    for element in range(first_element(offsets, width, row), last, TILE):
        n = min(TILE, last - element)
        if load_i64(d + w.SEPARATOR_WIDTH) > 0:
            load_split(call, d, s, element, n)
            while load_i64(s + CURSOR) < n:
                count = next_tokens(call, d, s, n, TILE)
                pending = look_up_tokens(call, d, s, count, element, pending)
                pending = units.drain(call, d, s, pending, out)
        else:
            pending = look_up_elements(call, d, s, element, n, pending)
            pending = units.drain(call, d, s, pending, out)
    units.end_long_row(call, d, s, total, out)


@implements(units.run_long_rows)
def run_long_rows(call: int, d: int, s: int, begin: int, end: int) -> int:
    """Rows begin .. end - 1 of a column, each by itself."""
    for row in range(begin, end):
        _long_row(call, d, s, row)
    return 0
