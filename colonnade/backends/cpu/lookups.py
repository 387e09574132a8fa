"""Ids to the addresses of table rows, and where a column's slot lies.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.atomics import atomic_add
from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.elements import ids_of, load_weights
from colonnade.backends.cpu.offsets import first_element, offsets_of, row_of
from colonnade.backends.cpu.rows import prefetch_row
from colonnade.backends.cpu.scratch import COUNTS, FACTORS, FIRST_ROW, KEEP, LOOKED_UP, NUM_ROWS
from colonnade.backends.cpu.units import filter_elements, implements
from colonnade.backends.lanes import copy_row
from colonnade.backends.memory import kernel, load_f32, load_i64, load_u8, load_u64, store_f32, store_i32, store_i64

NO_BYTE = np.uint8(0)
UNCHECKED = np.uint64(2**64 - 1)


@kernel
def slot_of(call: int, d: int, row: int) -> int:
    """The address of a column's slot in an output row."""
    buffer = call + load_i64(d + w.BUFFER)
    return load_i64(buffer) + row * load_i64(buffer + 8) + load_i64(d + w.OFFSET)


@kernel
def outside(call: int, d: int, element: int, value: int) -> int:
    """Note an element's id outside its table; gives the row of zeros that stands for it."""
    if load_i64(call + w.POLICY) == 0:
        atomic_add(call + w.ZEROED, 1)
        return load_i64(d + w.ZERO)
    store_i64(call + w.FAILED, 1)
    records = load_i64(call + w.ERRORS)
    if records != 0:
        record = records + w.ERROR_BYTES * load_i64(d + w.NUMBER)
        if load_i64(record + w.SEEN) == 0:
            store_i64(record + w.SEEN, 1)
            row = row_of(offsets_of(call, d), load_i64(d + w.WIDTH), load_i64(call + w.BATCH), element)
            store_i64(record + w.ERROR_ROW, row)
            store_i64(record + w.ERROR_VALUE, value)
    return load_i64(d + w.ZERO)


@implements(units.element_rows)
def element_rows(call: int, d: int, s: int, element: int, n: int, rows: int) -> int:
    """The address of each element's row, of the empty row where a filter drops it."""
    filtered, far = load_i64(d + w.FILTERS) > 0, load_i64(d + w.FAR) == 1
    if filtered:
        filter_elements(call, d, s, element, n, s + KEEP)
    ids = ids_of(call, d, s, element, n)
    table, size, limit = load_i64(d + w.TABLE), load_i64(d + w.ROW_BYTES), load_u64(d + w.ROWS)
    for i in range(n):
        row = load_i64(d + w.EMPTY)
        if not filtered or load_u8(s + KEEP + i) != NO_BYTE:
            if limit == UNCHECKED or load_u64(ids + 8 * i) < limit:
                row = table + load_i64(ids + 8 * i) * size
                if far:
                    prefetch_row(row, size)
            else:
                row = outside(call, d, element + i, load_i64(ids + 8 * i))
        store_i64(rows + 8 * i, row)
    return 0


@kernel
def copy_slots(call: int, d: int, begin: int, end: int, dim: int) -> None:
    """Copy what lies in a column's first slot to its others."""
    copy = load_i64(d + w.FIRST_COPY)
    for _ in range(load_i64(d + w.COPIES)):
        buffer = call + load_i64(copy)
        out = load_i64(buffer) + load_i64(copy + 8)
        for row in range(begin, end):
            copy_row(slot_of(call, d, row), out + row * load_i64(buffer + 8), dim)
        copy += 16


@kernel
def _compact(call: int, d: int, s: int, ids: int, element: int, n: int, kept: int) -> int:
    """Append the row addresses (and weights) of kept elements to the `kept` ones there are; gives their number.

    Writes the number of each batch row to COUNTS. Facts: the elements are all of the tile's rows, or some of its only
    one. Weights are never appended to others.
    """
    table, size, limit = load_i64(d + w.TABLE), load_i64(d + w.ROW_BYTES), load_u64(d + w.ROWS)
    filtered, weighted, far = load_i64(d + w.FILTERS) > 0, load_i64(d + w.WEIGHTS) != 0, load_i64(d + w.FAR) == 1
    offsets, width, first = offsets_of(call, d), load_i64(d + w.WIDTH), load_i64(s + FIRST_ROW)
    i = 0
    for r in range(load_i64(s + NUM_ROWS)):
        begin, end = kept, min(first_element(offsets, width, first + r + 1) - element, n)
        for j in range(i, end):
            if filtered and load_u8(s + KEEP + j) == NO_BYTE:
                continue
            if limit == UNCHECKED or load_u64(ids + 8 * j) < limit:
                row = table + load_i64(ids + 8 * j) * size
                if far:
                    prefetch_row(row, size)
            else:
                row = outside(call, d, element + j, load_i64(ids + 8 * j))
            store_i64(s + LOOKED_UP + 8 * kept, row)
            if weighted:
                store_f32(s + FACTORS + 4 * kept, load_f32(s + FACTORS + 4 * j))
            kept += 1
        store_i32(s + COUNTS + 4 * r, np.int32(kept - begin))
        i = end
    return kept


@implements(units.look_up_elements)
def look_up_elements(call: int, d: int, s: int, element: int, n: int, kept: int) -> int:
    """Append the kept row addresses and weights of n elements of the tile's rows; gives their number."""
    if load_i64(d + w.FILTERS) > 0:
        filter_elements(call, d, s, element, n, s + KEEP)
    if load_i64(d + w.WEIGHTS) != 0:
        load_weights(call, d, s, element, n, s + FACTORS)
    return _compact(call, d, s, ids_of(call, d, s, element, n), element, n, kept)
