"""Single columns: at most one element a batch row. A block of them runs a tile of rows at a time: ids, then copies.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

from colonnade.backends.cpu import units
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.intrinsics import prefetch_second, stream_lanes
from colonnade.backends.cpu.lookups import copy_slots
from colonnade.backends.cpu.rows import LINE, stream_row
from colonnade.backends.cpu.scratch import AHEAD, AHEAD_LINES, DESTINATIONS, ROW_PITCH, ROW_TILE, ROWS_OF_BLOCK
from colonnade.backends.cpu.tiles.bucketize import bucketized_rows
from colonnade.backends.cpu.units import element_rows, implements
from colonnade.backends.cpu.widen import widen
from colonnade.backends.lanes import LANES, copy_row, load_lanes, store_lanes
from colonnade.backends.memory import kernel, load_i64, store_i64

HALF = 4 * LANES
"""Bytes of a row of eight values: half a cache line."""


@kernel
def _stream_pairs(rows: int, count: int, n: int, out: int, stride: int, taken: bool, takes: bool) -> None:
    """Copy rows of eight values to slots side by side, whole cache lines past the caches.

    taken: the block before writes the first slot where it is the second half of a line.
    takes: `rows` has one more column, the next block's first, whose slot this block writes there.
    """
    for r in range(n):
        at, c = rows + 8 * r, 0
        if out & HALF != 0:
            c = 1
            if not taken:
                store_lanes(out, load_lanes(load_i64(at)))
        end = count + 1 if takes and (count - c) % 2 == 1 else count
        while c + 2 <= end:
            first, second = load_lanes(load_i64(at + ROW_PITCH * c)), load_lanes(load_i64(at + ROW_PITCH * (c + 1)))
            stream_lanes(out + HALF * c, first)
            stream_lanes(out + HALF * (c + 1), second)
            c += 2
        if c < end:
            store_lanes(out + HALF * c, load_lanes(load_i64(at + ROW_PITCH * c)))
        out += stride


@kernel
def _stream_block(s: int, count: int, n: int, shift: int, stride: int, dim: int) -> None:
    """Facts: as `_copy_block`; dim is a multiple of 16."""
    for r in range(n):
        for c in range(count):
            row, out = load_i64(s + ROWS_OF_BLOCK + ROW_PITCH * c + 8 * r), load_i64(s + DESTINATIONS + 8 * c) + shift
            if out % LINE == 0:
                stream_row(row, out, dim)
            else:
                copy_row(row, out, dim)
        shift += stride


@kernel
def _copy_block(s: int, count: int, n: int, shift: int, stride: int, dim: int) -> None:
    """Facts: the columns of a block have one output and one embedding_dim."""
    rows, slots = s + ROWS_OF_BLOCK, s + DESTINATIONS
    if dim == LANES:
        for r in range(n):
            for c in range(count):
                store_lanes(load_i64(slots + 8 * c) + shift, load_lanes(load_i64(rows + ROW_PITCH * c + 8 * r)))
            shift += stride
    elif dim == 2 * LANES:
        for r in range(n):
            for c in range(count):
                row, out = load_i64(rows + ROW_PITCH * c + 8 * r), load_i64(slots + 8 * c) + shift
                store_lanes(out, load_lanes(row))
                store_lanes(out + 4 * LANES, load_lanes(row + 4 * LANES))
            shift += stride
    else:
        for r in range(n):
            for c in range(count):
                copy_row(load_i64(rows + ROW_PITCH * c + 8 * r), load_i64(slots + 8 * c) + shift, dim)
            shift += stride


@kernel
def _widen_block(s: int, count: int, n: int, shift: int, stride: int, dim: int, form: int) -> None:
    """Facts: as `_copy_block`, and the tables of a block are stored in one form."""
    for r in range(n):
        for c in range(count):
            row, slot = load_i64(s + ROWS_OF_BLOCK + ROW_PITCH * c + 8 * r), load_i64(s + DESTINATIONS + 8 * c)
            widen(form, row, 0, dim, dim, slot + shift)
        shift += stride


@kernel
def _read_ahead(s: int, begin: int, end: int, of: int) -> None:
    """Begin to read parts begin .. end - 1, `of` which there are, of what the next item reads."""
    lines, address = load_i64(s + AHEAD_LINES), load_i64(s + AHEAD)
    for k in range(lines * begin // of, lines * end // of):
        prefetch_second(address + LINE * k)


@implements(units.run_single)
def run_single(call: int, block: int, s: int, begin: int, end: int) -> int:
    """Rows begin .. end - 1 of a block."""
    first, count = load_i64(block + w.COLUMN), load_i64(block + w.COUNT)
    buffer = call + load_i64(first + w.BUFFER)
    output, stride = load_i64(buffer), load_i64(buffer + 8)
    floats, batch = load_i64(call + w.SOURCES), load_i64(call + w.BATCH)
    dim, form, stream = load_i64(first + w.DIM), load_i64(first + w.FORM), load_i64(call + w.STREAM) == 1
    whole = (output | stride) % HALF == 0
    pairs = stream and whole and form == w.FORM_F32 and dim == LANES and load_i64(block + w.ADJACENT) == 1
    behind = output + load_i64(first + w.OFFSET) + HALF * count
    takes = pairs and load_i64(block + w.TAKES) == 1 and (stride | behind) & HALF != 0
    for start in range(begin, end, ROW_TILE):
        n = min(ROW_TILE, end - start)
        for c in range(count + 1 if takes else count):
            if c < count:
                at = (start - begin) * count + c * n
                _read_ahead(s, at, at + n, (end - begin) * count)
            d = first + w.DESCRIPTOR_BYTES * c
            rows = s + ROWS_OF_BLOCK + ROW_PITCH * c
            tree = load_i64(d + w.TREE)
            if tree != 0:
                source = floats + 4 * (batch * load_i64(d + w.START) + start)
                table, size = load_i64(d + w.TABLE), load_i64(d + w.ROW_BYTES)
                bucketized_rows(source, n, tree, load_i64(d + w.HEIGHT), table, size, rows)
            else:
                element_rows(call, d, s, start, n, rows)
            if c < count:
                store_i64(s + DESTINATIONS + 8 * c, load_i64(d + w.OFFSET) + output)
        if form != w.FORM_F32:
            _widen_block(s, count, n, start * stride, stride, dim, form)
        elif stream and dim % (2 * LANES) == 0:
            _stream_block(s, count, n, start * stride, stride, dim)
        elif pairs:
            out, taken = load_i64(s + DESTINATIONS) + start * stride, load_i64(block + w.TAKEN) == 1
            _stream_pairs(s + ROWS_OF_BLOCK, count, n, out, stride, taken, takes)
        else:
            _copy_block(s, count, n, start * stride, stride, dim)
        for c in range(count):
            d = first + w.DESCRIPTOR_BYTES * c
            if load_i64(d + w.COPIES) > 0:
                copy_slots(call, d, start, start + n, dim)
    return 0
