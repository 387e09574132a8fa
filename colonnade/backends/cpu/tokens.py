"""Pooled columns of split strings.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.elements import elements, filter_tokens, load_weights, mapped
from colonnade.backends.cpu.lookups import outside
from colonnade.backends.cpu.offsets import first_element, offsets_of, tile_rows
from colonnade.backends.cpu.rows import prefetch_row
from colonnade.backends.cpu.scratch import (
    COUNTS,
    CURSOR,
    ELEMENT_FACTORS,
    ELEMENTS,
    FACTORS,
    KEEP,
    KEEP_ELEMENTS,
    LOOKED_UP,
    MARKS,
    PAIR,
    TILE,
    TOKENS,
)
from colonnade.backends.cpu.tiles.split import find
from colonnade.backends.cpu.units import filter_elements, implements, pool_rows, run_long_rows
from colonnade.backends.memory import (
    kernel,
    load_f32,
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    store_f32,
    store_i32,
    store_i64,
)

NO_BYTE = np.uint8(0)
UNCHECKED = np.uint64(2**64 - 1)


@implements(units.load_split)
def load_split(call: int, d: int, s: int, element: int, n: int) -> int:
    """Strings to be split and their mask; the cursor before the first token."""
    elements(call, d, element, n, s + ELEMENTS)
    filter_elements(call, d, s, element, n, s + KEEP_ELEMENTS)
    if load_i64(d + w.WEIGHTS) != 0:
        load_weights(call, d, s, element, n, s + ELEMENT_FACTORS)
    store_i64(s + CURSOR, 0)
    store_i64(s + CURSOR + 8, 0)
    return 0


@implements(units.next_tokens)
def next_tokens(call: int, d: int, s: int, elements: int, capacity: int) -> int:
    """Tokens from the cursor on, until `capacity` of them or the last element; moves the cursor; gives their number."""
    separator, width = load_i64(d + w.SEPARATOR), load_i64(d + w.SEPARATOR_WIDTH)
    element, at = load_i64(s + CURSOR), load_i64(s + CURSOR + 8)
    n = 0
    while element < elements:
        if load_u8(s + KEEP_ELEMENTS + element) != NO_BYTE:
            text = load_i64(s + ELEMENTS + PAIR * element)
            length = load_i64(s + ELEMENTS + PAIR * element + 8)
            while at <= length and n < capacity:
                end = find(text, at, length, separator, width)
                store_i64(s + TOKENS + PAIR * n, text + at)
                store_i64(s + TOKENS + PAIR * n + 8, end - at)
                store_i32(s + MARKS + 4 * n, np.int32(element))
                n += 1
                at = end + width
            if at <= length:
                break
        element += 1
        at = 0
    store_i64(s + CURSOR, element)
    store_i64(s + CURSOR + 8, at)
    return n


@implements(units.look_up_tokens)
def look_up_tokens(call: int, d: int, s: int, n: int, element: int, kept: int) -> int:
    """Append the row addresses of n tokens that filters keep to the `kept` ones there are; gives their number.

    MARKS become those of the appended.
    """
    filtered = load_i64(d + w.FILTERS) > 0
    if filtered:
        filter_tokens(d, s, s + TOKENS, n, s + KEEP)
    ids = mapped(call, d, load_i64(d + w.STEPS), element, s + TOKENS, n, s)
    table, size, limit = load_i64(d + w.TABLE), load_i64(d + w.ROW_BYTES), load_u64(d + w.ROWS)
    far, first, weighted = load_i64(d + w.FAR) == 1, kept, load_i64(d + w.WEIGHTS) != 0
    for i in range(n):
        if filtered and load_u8(s + KEEP + i) == NO_BYTE:
            continue
        mark = load_i32(s + MARKS + 4 * i)
        if limit == UNCHECKED or load_u64(ids + 8 * i) < limit:
            row = table + load_i64(ids + 8 * i) * size
            if far:
                prefetch_row(row, size)
        else:
            row = outside(call, d, element + mark, load_i64(ids + 8 * i))
        store_i64(s + LOOKED_UP + 8 * kept, row)
        store_i32(s + MARKS + 4 * (kept - first), np.int32(mark))
        if weighted:
            store_f32(s + FACTORS + 4 * kept, load_f32(s + ELEMENT_FACTORS + 4 * mark))
        kept += 1
    return kept


@kernel
def _count_marks(s: int, n: int, offsets: int, width: int, element: int, row: int, end: int) -> None:
    """The number of tokens of each row in row .. end - 1 to COUNTS, from the marks of n tokens, from `element` on."""
    at = 0
    for r in range(row, end):
        begin, stop = at, first_element(offsets, width, r + 1) - element
        while at < n and load_i32(s + MARKS + 4 * at) < stop:
            at += 1
        store_i32(s + COUNTS + 4 * (r - row), np.int32(at - begin))


@kernel
def _split_rows(call: int, d: int, s: int, element: int, n: int, row: int, last: int) -> int:
    """Pool as many rows up to `last` as have all their tokens in one tile, at least one; gives the next row.

    The n elements from `element` on are loaded.
    """
    offsets, width = offsets_of(call, d), load_i64(d + w.WIDTH)
    store_i64(s + CURSOR, first_element(offsets, width, row) - element)
    store_i64(s + CURSOR + 8, 0)
    count = units.next_tokens(call, d, s, n, TILE)
    end, stop = row, element + load_i64(s + CURSOR)
    while end < last and first_element(offsets, width, end + 1) <= stop:
        end += 1
    if end == row:
        run_long_rows(call, d, s, row, row + 1)
        units.load_split(call, d, s, element, n)
        return row + 1
    stop = first_element(offsets, width, end) - element
    while count > 0 and load_i32(s + MARKS + 4 * (count - 1)) >= stop:
        count -= 1
    kept = units.look_up_tokens(call, d, s, count, element, 0)
    _count_marks(s, kept, offsets, width, element, row, end)
    pool_rows(call, d, s, row, end - row)
    return end


@implements(units.run_split)
def run_split(call: int, d: int, s: int, begin: int, end: int) -> int:
    """Rows begin .. end - 1 of a column."""
    offsets, width = offsets_of(call, d), load_i64(d + w.WIDTH)
    row = begin
    while row < end:
        last = row + tile_rows(offsets, width, row, end)
        if last == row:
            run_long_rows(call, d, s, row, row + 1)
            row += 1
            continue
        element = first_element(offsets, width, row)
        n = first_element(offsets, width, last) - element
        units.load_split(call, d, s, element, n)
        while row < last:
            row = _split_rows(call, d, s, element, n, row, last)
    return 0
