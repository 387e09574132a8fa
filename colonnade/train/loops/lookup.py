"""Distinct keys to their rows' values, block by block: each row is read once, while it is near.

Legend: `store` is the address of a store's words; U distinct keys; `rows` is int64 [U], -1: no row; D embedding_dim.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch
from colonnade.backends.lanes import LANES, load_lanes, store_lanes
from colonnade.backends.memory import inlined, load_f64, load_i32, load_i64, load_u64, store_f32, store_i64
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import entry
from colonnade.train.loops.rows import AHEAD, load_value, prefetch_row
from colonnade.train.loops.slots import ABREAST, BITS, EMPTY, next_like, row_at, row_in, search, table_at


@inlined
def _copy(store: int, at: int, out: int) -> None:
    """The values of a row as float32."""
    dim, form, values, k = load_i64(store + w.DIM), load_i64(store + w.FORM), at + w.VALUES, 0
    if form == w.FLOAT32:
        while k + LANES <= dim:
            store_lanes(out + 4 * k, load_lanes(values + 4 * k))
            k += LANES
    while k < dim:
        store_f32(out + 4 * k, load_value(form, values, k))
        k += 1


@inlined
def _default(store: int, table: int, out: int) -> None:
    default = np.float32(load_f64(table_at(store, table) + w.DEFAULT))
    for k in range(load_i64(store + w.DIM)):
        store_f32(out + 4 * k, default)


@inlined
def _read(store: int, row: int, table: int, count: int, step: int, out: int) -> None:
    """The values of a key's row, or its table's default; noted with its `count` where there is a step."""
    if row < 0:
        _default(store, table, out)
        return
    at = row_at(store, row)
    if step >= 0:
        store_i64(at + w.STEP, step)
        store_i64(at + w.COUNT, load_i64(at + w.COUNT) + count)
    _copy(store, at, out)


@entry
def look_up(
    store: int, hashes: int, tables: int, ids: int, counts: int, count: int, rows: int, step: int, out: int
) -> int:
    """Find keys, note that they were looked up in a step (-1: do not), and read their values; gives how many have none.

    hashes: uint64 [U].   tables, ids: int64 [U].   counts: int32 [U].   rows: written.   out: float32 [U, D], written.
    """
    slots, mask, missing = load_i64(store + w.SLOTS), load_i64(store + w.MASK), 0
    size = 4 * load_i64(store + w.DIM)
    for start in range(0, count, ABREAST):
        end = min(start + ABREAST, count)
        for u in range(start, end):
            prefetch(slots + 8 * (np.int64(load_u64(hashes + 8 * u)) & mask))
        for u in range(start, end):
            h = load_u64(hashes + 8 * u)
            at = next_like(slots, mask, np.int64(h) & mask, h >> BITS)
            slot = load_u64(slots + 8 * at)
            store_i64(rows + 8 * u, at if slot != EMPTY else -1)
            if slot != EMPTY:
                prefetch_row(store, row_in(slot))
        for u in range(start, end):
            at, table = load_i64(rows + 8 * u), load_i64(tables + 8 * u)
            if at >= 0:
                at = search(store, at, load_u64(hashes + 8 * u) >> BITS, table, load_i64(ids + 8 * u))
            row = at if at < 0 else row_in(load_u64(slots + 8 * at))
            missing += 1 if row < 0 else 0
            store_i64(rows + 8 * u, row)
            _read(store, row, table, load_i32(counts + 4 * u), step, out + size * u)
    return missing


@entry
def read_rows(store: int, rows: int, tables: int, counts: int, chosen: int, count: int, step: int, out: int) -> int:
    """What `look_up` does for keys whose rows are known. chosen: int64 [count], which of them."""
    size = 4 * load_i64(store + w.DIM)
    for i in range(count):
        if i + AHEAD < count:
            prefetch_row(store, load_i64(rows + 8 * load_i64(chosen + 8 * (i + AHEAD))))
        u = load_i64(chosen + 8 * i)
        row, table = load_i64(rows + 8 * u), load_i64(tables + 8 * u)
        _read(store, row, table, load_i32(counts + 4 * u), step, out + size * u)
    return 0
