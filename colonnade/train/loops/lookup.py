"""Distinct keys to their rows' values: each row is read once, when its memory has come.

Legend: `store` is the address of a store's words; U distinct keys; `rows` is int64 [U], -1: no row; D embedding_dim.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.lanes import LANES, load_lanes, store_lanes
from colonnade.backends.memory import inlined, load_f64, load_i32, load_i64, store_f32, store_i32, store_i64
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import entry
from colonnade.train.loops.rows import load_value, prefetch_values
from colonnade.train.loops.slots import AHEAD, foresee, row_at, settled, table_at


@inlined
def _copy(store: int, at: int, out: int) -> None:
    """The values of a row as float32."""
    dim, form, values, k = load_i64(store + w.DIM), load_i64(store + w.FORM), at + load_i64(store + w.VALUES), 0
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
        store_i32(at + w.STEP, np.int32(step))
        store_i64(at + w.COUNT, load_i64(at + w.COUNT) + count)
    _copy(store, at, out)


@entry
def look_up(
    store: int, hashes: int, tables: int, ids: int, counts: int, count: int, rows: int, step: int, out: int
) -> int:
    """Find keys, note that they were looked up in a step (-1: do not), and read their values; gives how many have none.

    hashes: uint64 [U].   tables, ids: int64 [U].   counts: int32 [U].   rows: written.   out: float32 [U, D], written.
    """
    missing, size, near = 0, 4 * load_i64(store + w.DIM), load_i64(store + w.STATES)
    for v in range(count + 2 * AHEAD):
        foresee(store, hashes, rows, v, count, near)
        u = v - 2 * AHEAD
        if u >= 0:
            row = settled(store, hashes, tables, ids, rows, u)
            missing += 1 if row < 0 else 0
            _read(store, row, load_i64(tables + 8 * u), load_i32(counts + 4 * u), step, out + size * u)
    return missing


@entry
def read_rows(store: int, rows: int, tables: int, counts: int, chosen: int, count: int, step: int, out: int) -> int:
    """What `look_up` does for keys whose rows are known. chosen: int64 [count], which of them."""
    size = 4 * load_i64(store + w.DIM)
    for i in range(count):
        if i + AHEAD < count:
            prefetch_values(store, load_i64(rows + 8 * load_i64(chosen + 8 * (i + AHEAD))))
        u = load_i64(chosen + 8 * i)
        row, table = load_i64(rows + 8 * u), load_i64(tables + 8 * u)
        _read(store, row, table, load_i32(counts + 4 * u), step, out + size * u)
    return 0
