"""Pooled columns without a split: several elements, filters or weights.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.intrinsics import load_i64
from colonnade.backends.cpu.scratch import TILE
from colonnade.backends.cpu.units import implements, look_up_elements, pool_rows, run_long_rows


@implements(units.run_pooled)
def run_pooled(call: int, d: int, s: int, begin: int, end: int) -> int:
    """Rows begin .. end - 1 of a column."""
    width = load_i64(d + w.WIDTH)
    if width > TILE:
        return run_long_rows(call, d, s, begin, end)
    tile_rows = TILE // width
    for start in range(begin, end, tile_rows):
        n = min(tile_rows, end - start)
        look_up_elements(call, d, s, start * width, n * width, 0)
        pool_rows(call, d, s, start, n)
    return 0
