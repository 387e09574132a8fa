"""The engine: runs all columns of a program, block by block, in one call.

Legend: `call` is the address of a call's context, `d` of a column's descriptor, `s` of a worker's scratch memory.
"""

from __future__ import annotations

from colonnade.backends.atomics import atomic_add
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.intrinsics import scratch
from colonnade.backends.cpu.lookups import copy_slots, slot_of
from colonnade.backends.cpu.offsets import cut
from colonnade.backends.cpu.rows import LINE
from colonnade.backends.cpu.scratch import AHEAD, AHEAD_LINES, SCRATCH_BYTES
from colonnade.backends.cpu.units import run_numeric, run_pooled, run_single, run_split, run_spread
from colonnade.backends.cpu.widen import put_row
from colonnade.backends.jobs import FIRST, LAST
from colonnade.backends.memory import kernel, load_i64, store_i64

LINES_A_ROW = 8
"""Cache lines that a block of some eight columns may read a row: with more, most of the lines are never needed."""

_memory = scratch(SCRATCH_BYTES)


@kernel
def _column(call: int, kind: int, d: int, s: int, begin: int, end: int) -> None:
    values = load_i64(d + w.DIM)
    if kind == w.NUMERIC:
        values = load_i64(d + w.WIDTH)
        run_numeric(call, d, s, begin, end)
    elif kind == w.SPREAD:
        values *= load_i64(d + w.WIDTH)
        run_spread(call, d, s, begin, end)
    elif load_i64(d + w.WIDTH) == 0:
        for row in range(begin, end):
            put_row(d, load_i64(d + w.EMPTY), slot_of(call, d, row))
    elif load_i64(d + w.SEPARATOR_WIDTH) > 0:
        run_split(call, d, s, begin, end)
    else:
        run_pooled(call, d, s, begin, end)
    copy_slots(call, d, begin, end, values)


@kernel
def _look_ahead(call: int, s: int, item: int, number: int, rows: int) -> None:
    """Note what a worker is to read ahead while it runs an item: most of it, or nothing."""
    chunks = load_i64(call + w.CHUNKS)
    after, lines = (item + load_i64(call + w.WORKERS)) // chunks, 0
    if number < after < load_i64(call + w.ITEMS) // chunks:
        block = load_i64(call + w.BLOCKS) + w.BLOCK_BYTES * after
        store_i64(s + AHEAD, load_i64(block + w.READS))
        lines = load_i64(block + w.READ_BYTES) // LINE
    store_i64(s + AHEAD_LINES, lines if lines <= LINES_A_ROW * rows else 0)


@kernel
def _block(call: int, block: int, s: int, begin: int, end: int) -> None:
    kind = load_i64(block + w.KIND)
    if kind == w.SINGLE:
        run_single(call, block, s, begin, end)
        return
    for c in range(load_i64(block + w.COUNT)):
        _column(call, kind, load_i64(block + w.COLUMN) + w.DESCRIPTOR_BYTES * c, s, begin, end)


@kernel
def _rows(call: int, s: int, begin: int, end: int) -> None:
    """Every block of some rows."""
    for number in range(load_i64(call + w.ITEMS)):
        _look_ahead(call, s, number, number, end - begin)
        _block(call, load_i64(call + w.BLOCKS) + w.BLOCK_BYTES * number, s, begin, end)


@kernel
def work(call: int) -> int:
    """Claim and run items of a call until none is left: a caller and its helpers run this at the same time.

    Where the context says which rows are to be done, run every block of these.
    """
    s = _memory()
    if load_i64(call + LAST) > 0:
        _rows(call, s, load_i64(call + FIRST), load_i64(call + LAST))
        return 0
    items, chunks, rows = load_i64(call + w.ITEMS), load_i64(call + w.CHUNKS), load_i64(call + w.CHUNK_ROWS)
    batch = load_i64(call + w.BATCH)
    while True:
        item = atomic_add(call + w.NEXT, 1)
        if item >= items:
            return 0
        number = item // chunks
        block = load_i64(call + w.BLOCKS) + w.BLOCK_BYTES * number
        begin = (item - number * chunks) * rows
        end = min(begin + rows, batch)
        word = load_i64(block + w.BLOCK_OFFSETS)
        if word != 0:
            offsets, part = load_i64(call + word), item - number * chunks
            begin, end = cut(offsets, batch, part, chunks), cut(offsets, batch, part + 1, chunks)
        _look_ahead(call, s, item, number, end - begin)
        _block(call, block, s, begin, end)
