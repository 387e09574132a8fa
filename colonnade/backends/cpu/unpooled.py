"""Numeric columns, and columns that put every element's row side by side.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.elements import ids_of, load_weights
from colonnade.backends.cpu.lookups import slot_of
from colonnade.backends.cpu.rows import scale_row
from colonnade.backends.cpu.scratch import FACTORS, KEEP, LOOKED_UP, TILE
from colonnade.backends.cpu.units import element_rows, filter_elements, implements
from colonnade.backends.cpu.widen import widen
from colonnade.backends.lanes import copy_row
from colonnade.backends.memory import kernel, load_f32, load_f64, load_i64, load_u8, store_f32

NO_BYTE, NOTHING = np.uint8(0), np.float32(0)


@kernel
def _number(values: int, i: int, kind: int) -> np.float32:
    if kind == w.VALUE_F32:
        return load_f32(values + 4 * i)
    if kind == w.VALUE_F64:
        return np.float32(load_f64(values + 8 * i))
    return np.float32(load_i64(values + 8 * i))


@implements(units.run_numeric)
def run_numeric(call: int, d: int, s: int, begin: int, end: int) -> int:
    """Every element's value; zero where a filter drops it."""
    width, kind, filtered = load_i64(d + w.WIDTH), load_i64(d + w.VALUE), load_i64(d + w.FILTERS) > 0
    for element in range(begin * width, end * width, TILE):
        n = min(TILE, end * width - element)
        if filtered:
            filter_elements(call, d, s, element, n, s + KEEP)
        values = ids_of(call, d, s, element, n)
        row = element // width
        j = element - row * width
        out = slot_of(call, d, row)
        for i in range(n):
            kept = not filtered or load_u8(s + KEEP + i) != NO_BYTE
            store_f32(out + 4 * j, _number(values, i, kind) if kept else NOTHING)
            j += 1
            if j == width:
                j = 0
                row += 1
                out = slot_of(call, d, row)
    return 0


@implements(units.run_spread)
def run_spread(call: int, d: int, s: int, begin: int, end: int) -> int:
    """Every element's row, side by side in the slot; zeros where a filter drops it."""
    width, dim, weighted = load_i64(d + w.WIDTH), load_i64(d + w.DIM), load_i64(d + w.WEIGHTS) != 0
    form = load_i64(d + w.FORM)
    for element in range(begin * width, end * width, TILE):
        n = min(TILE, end * width - element)
        element_rows(call, d, s, element, n, s + LOOKED_UP)
        if weighted:
            load_weights(call, d, s, element, n, s + FACTORS)
        for i in range(n):
            row = (element + i) // width
            out = slot_of(call, d, row) + 4 * dim * (element + i - row * width)
            source = load_i64(s + LOOKED_UP + 8 * i)
            if form != w.FORM_F32:
                widen(form, source, 0, dim, dim, out)
                if weighted and source != load_i64(d + w.EMPTY):
                    scale_row(out, out, dim, load_f32(s + FACTORS + 4 * i))
            elif weighted and source != load_i64(d + w.EMPTY):
                scale_row(source, out, dim, load_f32(s + FACTORS + 4 * i))
            else:
                copy_row(source, out, dim)
    return 0
