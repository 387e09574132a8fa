"""Where the elements of a batch row lie: by the width of a dense field, by the offsets of a ragged one.

Legend: `call` is the address of a call's context, `d` of a column's descriptor; `offsets` is the address of a column's
offsets, 0 where its fields are dense and have `width` elements a row.
"""

from __future__ import annotations

from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.scratch import TILE
from colonnade.backends.memory import kernel, load_i64


@kernel
def offsets_of(call: int, d: int) -> int:
    """The address of a column's offsets, or 0."""
    word = load_i64(d + w.OFFSETS)
    return load_i64(call + word) if word != 0 else 0


@kernel
def first_element(offsets: int, width: int, row: int) -> int:
    """The number of a batch row's first element."""
    return load_i64(offsets + 8 * row) if offsets != 0 else row * width


@kernel
def tile_rows(offsets: int, width: int, row: int, end: int) -> int:
    """The number of batch rows from `row` on whose elements fit in a tile; 0 where the first has more than a tile."""
    if offsets == 0:
        return min(TILE // width, end - row)
    last, limit = row, min(end, row + TILE)
    stop = load_i64(offsets + 8 * row) + TILE
    while last < limit and load_i64(offsets + 8 * last + 8) <= stop:
        last += 1
    return last - row


@kernel
def row_of(offsets: int, width: int, batch: int, element: int) -> int:
    """The batch row of an element."""
    if offsets == 0:
        return element // width
    low, high = 0, batch
    while low + 1 < high:
        middle = (low + high) // 2
        if load_i64(offsets + 8 * middle) <= element:
            low = middle
        else:
            high = middle
    return low


@kernel
def cut(offsets: int, batch: int, part: int, parts: int) -> int:
    """The first row of a part: parts have about as many elements and rows, so that threads share long rows."""
    target = part * (load_i64(offsets + 8 * batch) + batch) // parts
    low, high = 0, batch
    while low < high:
        middle = (low + high) // 2
        if load_i64(offsets + 8 * middle) + middle < target:
            low = middle + 1
        else:
            high = middle
    return low
