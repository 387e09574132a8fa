"""Pooled columns without a split: several elements, filters or weights.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.offsets import first_element, offsets_of, tile_rows
from colonnade.backends.cpu.scratch import FIRST_ROW, NUM_ROWS
from colonnade.backends.cpu.units import implements, look_up_elements, pool_rows, run_long_rows
from colonnade.backends.memory import load_i64, store_i64


@implements(units.run_pooled)
def run_pooled(call: int, d: int, s: int, begin: int, end: int) -> int:
    """Rows begin .. end - 1 of a column."""
    offsets, width = offsets_of(call, d), load_i64(d + w.WIDTH)
    start = begin
    while start < end:
        n = tile_rows(offsets, width, start, end)
        if n == 0:
            run_long_rows(call, d, s, start, start + 1)
            start += 1
            continue
        element = first_element(offsets, width, start)
        store_i64(s + FIRST_ROW, start)
        store_i64(s + NUM_ROWS, n)
        look_up_elements(call, d, s, element, first_element(offsets, width, start + n) - element, 0)
        pool_rows(call, d, s, start, n)
        start += n
    return 0
