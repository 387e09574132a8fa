"""Rows of a store: made, freed, gathered, copied.

Legend: `store` is the address of a store's words; U distinct keys; `rows` is int64 [U], -1: no row; D embedding_dim.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.intrinsics import bf16_number, f16_number, prefetch
from colonnade.backends.lanes import LANES, load_lanes, store_lanes
from colonnade.backends.memory import (
    inlined,
    kernel,
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    store_f32,
    store_i32,
    store_i64,
    store_u8,
)
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import entry
from colonnade.train.loops.narrow import store_bf16, store_f16
from colonnade.train.loops.philox import draw_four
from colonnade.train.loops.slots import (
    AHEAD,
    BITS,
    U64,
    hash_of,
    home_of,
    prefetch_lines,
    publish,
    row_at,
    table_at,
    withdraw,
)


@inlined
def load_value(form: int, values: int, k: int) -> np.float32:
    """Value k of stored values."""
    if form == w.FLOAT32:
        return load_f32(values + 4 * k)
    return bf16_number(values + 2 * k) if form == w.BFLOAT16 else f16_number(values + 2 * k)


@kernel
def store_value(form: int, values: int, k: int, x: np.float32) -> None:
    """Write value k of stored values, rounded to the nearest, ties to even."""
    if form == w.FLOAT32:
        store_f32(values + 4 * k, x)
    elif form == w.BFLOAT16:
        store_bf16(values + 2 * k, x)
    else:
        store_f16(values + 2 * k, x)


@inlined
def prefetch_values(store: int, row: int) -> None:
    """Begin to read a row up to the end of its values."""
    if row >= 0:
        prefetch_lines(row_at(store, row), load_i64(store + w.STATES))


@inlined
def prefetch_learned(store: int, row: int) -> None:
    """Begin to read a row's values and state."""
    if row >= 0:
        values = load_i64(store + w.VALUES)
        prefetch_lines(row_at(store, row) + values, load_i64(store + w.ROW_BYTES) - values)


@inlined
def _take_row(store: int) -> int:
    row = load_i64(store + w.FREE)
    if row >= 0:
        before = load_i64(row_at(store, row) + w.ID)
        if before >= 0:
            prefetch(row_at(store, before))
        store_i64(store + w.FREE, before)
        store_i64(store + w.NUM_FREE, load_i64(store + w.NUM_FREE) - 1)
        return row
    row = load_i64(store + w.NUM_ROWS)
    store_i64(store + w.NUM_ROWS, row + 1)
    return row


@inlined
def _hash(store: int, table: int, id_: int) -> np.uint64:
    """The hash of a key."""
    return hash_of(load_u64(table_at(store, table) + w.HASH_KEY), id_)


@kernel
def _fill(store: int, at: int, table: int, id_: int) -> None:
    form, values, dim = load_i64(store + w.FORM), at + load_i64(store + w.VALUES), load_i64(store + w.DIM)
    for start in range(0, dim, 4):
        four = draw_four(table, id_, start >> 2)
        for k in range(start, min(start + 4, dim)):
            store_value(form, values, k, four[k - start])
    states, fresh = at + load_i64(store + w.STATES), load_i64(table + w.FRESH_STATE)
    for k in range(load_i64(store + w.NUM_STATES)):
        store_f32(states + 4 * k, load_f32(fresh + 4 * k))


@entry
def insert(store: int, tables: int, ids: int, count: int, wanted: int, rows: int, step: int) -> int:
    """A new row for each key that has none and is wanted; gives how many.

    wanted: uint8 [U].   rows: those of new rows are written.   Facts: the keys are distinct; there is room.
    """
    made, slots = 0, load_i64(store + w.SLOTS)
    for u in range(count):
        if u + AHEAD < count:
            ahead = u + AHEAD
            prefetch(slots + 8 * home_of(store, _hash(store, load_i64(tables + 8 * ahead), load_i64(ids + 8 * ahead))))
        if load_i64(rows + 8 * u) >= 0 or load_u8(wanted + u) == 0:
            continue
        number, id_ = load_i64(tables + 8 * u), load_i64(ids + 8 * u)
        table, row = table_at(store, number), _take_row(store)
        at = row_at(store, row)
        _fill(store, at, table, id_)
        store_i32(at + w.STEP, np.int32(step))
        store_i64(at + w.COUNT, 0)
        store_i64(at + w.ID, id_)
        store_i32(at + w.TABLE, np.int32(number))
        publish(store, (_hash(store, number, id_) >> BITS << BITS) | U64(row + 1))
        store_i64(table + w.LIVE, load_i64(table + w.LIVE) + 1)
        store_i64(rows + 8 * u, row)
        made += 1
    return made


@entry
def remove(store: int, rows: int, count: int) -> int:
    """Free rows. Facts: they are distinct."""
    slots = load_i64(store + w.SLOTS)
    for i in range(count):
        if i + 2 * AHEAD < count:
            prefetch(row_at(store, load_i64(rows + 8 * (i + 2 * AHEAD))))
        if i + AHEAD < count:
            ahead = row_at(store, load_i64(rows + 8 * (i + AHEAD)))
            prefetch(slots + 8 * home_of(store, _hash(store, load_i32(ahead + w.TABLE), load_i64(ahead + w.ID))))
        row = load_i64(rows + 8 * i)
        at = row_at(store, row)
        number = load_i32(at + w.TABLE)
        withdraw(store, _hash(store, number, load_i64(at + w.ID)), row)
        table = table_at(store, number)
        store_i64(table + w.LIVE, load_i64(table + w.LIVE) - 1)
        store_i32(at + w.TABLE, np.int32(-1))
        store_i64(at + w.ID, load_i64(store + w.FREE))
        store_i64(store + w.FREE, row)
        store_i64(store + w.NUM_FREE, load_i64(store + w.NUM_FREE) + 1)
    return 0


@entry
def touch(store: int, rows: int, counts: int, count: int, step: int) -> int:
    """Note that rows were looked up: in which step, and how often. counts: int32 [U]."""
    for u in range(count):
        if u + AHEAD < count:
            ahead = load_i64(rows + 8 * (u + AHEAD))
            if ahead >= 0:
                prefetch(row_at(store, ahead))
        row = load_i64(rows + 8 * u)
        if row >= 0:
            at = row_at(store, row)
            store_i32(at + w.STEP, np.int32(step))
            store_i64(at + w.COUNT, load_i64(at + w.COUNT) + load_i32(counts + 4 * u))
    return 0


@entry
def gather(store: int, rows: int, tables: int, count: int, out: int) -> int:
    """`out[u] = the values of row u`, float32 [U, D]; the table's default where there is no row."""
    dim, form = load_i64(store + w.DIM), load_i64(store + w.FORM)
    for u in range(count):
        if u + AHEAD < count:
            prefetch_values(store, load_i64(rows + 8 * (u + AHEAD)))
        row, to = load_i64(rows + 8 * u), out + 4 * dim * u
        if row < 0:
            default = np.float32(load_f64(table_at(store, load_i64(tables + 8 * u)) + w.DEFAULT))
            for k in range(dim):
                store_f32(to + 4 * k, default)
            continue
        values, k = row_at(store, row) + load_i64(store + w.VALUES), 0
        if form == w.FLOAT32:
            while k + LANES <= dim:
                store_lanes(to + 4 * k, load_lanes(values + 4 * k))
                k += LANES
        while k < dim:
            store_f32(to + 4 * k, load_value(form, values, k))
            k += 1
    return 0


@entry
def read_part(store: int, rows: int, count: int, offset: int, size: int, out: int) -> int:
    """Copy `size` bytes of each row, from `offset` on, to where they lie one after the other."""
    for i in range(count):
        at, to = row_at(store, load_i64(rows + 8 * i)) + offset, out + size * i
        for k in range(size):
            store_u8(to + k, load_u8(at + k))
    return 0


@entry
def write_part(store: int, rows: int, count: int, offset: int, size: int, source: int) -> int:
    """Copy `size` bytes into each row, from `offset` on."""
    for i in range(count):
        to, at = row_at(store, load_i64(rows + 8 * i)) + offset, source + size * i
        for k in range(size):
            store_u8(to + k, load_u8(at + k))
    return 0


@entry
def rows_of(store: int, table: int, out: int) -> int:
    """The rows of a table, in their order; gives how many."""
    found = 0
    for row in range(load_i64(store + w.NUM_ROWS)):
        if load_i32(row_at(store, row) + w.TABLE) == table:
            store_i64(out + 8 * found, row)
            found += 1
    return found
