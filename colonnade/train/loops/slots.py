"""The map from (table, id) to rows: open addressing, one 64-bit word a slot, searched slot by slot from a key's home.

A slot holds the upper 32 bits of the key's hash (its tag) and row + 1; the key itself lies in the row, and is written
before the slot is. The home is the first bits of the tag: a slot says where its search began, whatever the row holds.
Legend: `store` is the address of a store's words; U distinct keys; `rows` is int64 [U], -1: no row.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch
from colonnade.backends.memory import inlined, kernel, load_i32, load_i64, load_u64, store_i64, store_u64
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import entry

U64 = np.uint64
SPREAD, MIX = U64(0x9E3779B97F4A7C15), U64(0xD6E8FEB86659FD93)
BITS, FOLD = U64(32), U64(29)
LOW = U64(0xFFFFFFFF)
EMPTY = U64(0)
AHEAD = 16
"""Memory is asked for so many keys or rows before it is read."""
LINE = 64


@inlined
def prefetch_lines(at: int, size: int) -> None:
    """Ask for up to four cache lines from an address on. Facts: in a loop, each row would end in a wrong guess."""
    prefetch(at)
    if size > LINE:
        prefetch(at + LINE)
    if size > 2 * LINE:
        prefetch(at + 2 * LINE)
    if size > 3 * LINE:
        prefetch(at + 3 * LINE)


@inlined
def hash_of(key: np.uint64, id_: int) -> np.uint64:
    """The hash of an id in a table with that key."""
    x = U64(id_)
    x = ((x ^ (x >> BITS)) * SPREAD) ^ key
    x = (x ^ (x >> FOLD)) * MIX
    return x ^ (x >> BITS)


@inlined
def row_at(store: int, row: int) -> int:
    """The address of a row."""
    shift = load_i64(store + w.SHIFT)
    block = load_i64(load_i64(store + w.BLOCKS) + 8 * (row >> shift))
    return block + (row & ((1 << shift) - 1)) * load_i64(store + w.ROW_BYTES)


@inlined
def table_at(store: int, table: int) -> int:
    """The address of a table's words."""
    return load_i64(store + w.TABLES) + 8 * w.TABLE_WORDS * table


@inlined
def row_in(slot: np.uint64) -> int:
    """The row that a slot says."""
    row: int = np.int64(slot & LOW) - 1
    return row


@inlined
def next_like(slots: int, mask: int, at: int, tag: np.uint64) -> int:
    """The first slot from `at` on that is empty or has the tag."""
    while True:
        slot = load_u64(slots + 8 * at)
        if slot == EMPTY or slot >> BITS == tag:
            return at
        at = (at + 1) & mask


@inlined
def home_of(store: int, hash_or_slot: np.uint64) -> int:
    """Where the search for a hash, or for what a slot holds, begins."""
    home: int = np.int64(hash_or_slot >> load_u64(store + w.HOME))
    return home


@inlined
def _likely(store: int, h: np.uint64) -> int:
    """The row of the first slot with a hash's tag, -1 where an empty one comes first."""
    slots = load_i64(store + w.SLOTS)
    return row_in(load_u64(slots + 8 * next_like(slots, load_i64(store + w.MASK), home_of(store, h), h >> BITS)))


@inlined
def _holds(store: int, row: int, table: int, id_: int) -> bool:
    """Whether a row is that of a key."""
    at = row_at(store, row)
    return bool(load_i64(at + w.ID) == id_ and load_i32(at + w.TABLE) == table)


@kernel
def _search(store: int, h: np.uint64, table: int, id_: int) -> int:
    """The row of a key, -1: none."""
    slots, mask, at = load_i64(store + w.SLOTS), load_i64(store + w.MASK), home_of(store, h)
    while True:
        at = next_like(slots, mask, at, h >> BITS)
        row = row_in(load_u64(slots + 8 * at))
        if row < 0 or _holds(store, row, table, id_):
            return row
        at = (at + 1) & mask


@inlined
def foresee(store: int, hashes: int, rows: int, v: int, count: int, size: int) -> None:
    """Ask for the slot of key v, and for as much of the row that key v - AHEAD is likely to have, which is written."""
    if v < count:
        prefetch(load_i64(store + w.SLOTS) + 8 * home_of(store, load_u64(hashes + 8 * v)))
    u = v - AHEAD
    if 0 <= u < count:
        row = _likely(store, load_u64(hashes + 8 * u))
        store_i64(rows + 8 * u, row)
        if row >= 0:
            prefetch_lines(row_at(store, row), size)


@inlined
def settled(store: int, hashes: int, tables: int, ids: int, rows: int, u: int) -> int:
    """The row of key u, whose likely one is known, written; -1: none."""
    row, table, id_ = load_i64(rows + 8 * u), load_i64(tables + 8 * u), load_i64(ids + 8 * u)
    if row >= 0 and not _holds(store, row, table, id_):
        row = _search(store, load_u64(hashes + 8 * u), table, id_)
        store_i64(rows + 8 * u, row)
    return row


@entry
def find(store: int, hashes: int, tables: int, ids: int, count: int, rows: int) -> int:
    """The row of each key; gives how many have none.

    hashes: uint64 [U].   tables: int64 [U].   ids: int64 [U].   rows: written.
    """
    missing = 0
    for v in range(count + 2 * AHEAD):
        foresee(store, hashes, rows, v, count, w.HEADER_BYTES)
        u = v - 2 * AHEAD
        if u >= 0:
            missing += 1 if settled(store, hashes, tables, ids, rows, u) < 0 else 0
    return missing


@inlined
def publish(store: int, slot: np.uint64) -> None:
    """Put what a slot is to hold into one. Facts: its key has none yet, and one is free."""
    slots, mask, at = load_i64(store + w.SLOTS), load_i64(store + w.MASK), home_of(store, slot)
    while load_u64(slots + 8 * at) != EMPTY:
        at = (at + 1) & mask
    store_u64(slots + 8 * at, slot)


@entry
def move_slots(store: int, slots: int, count: int) -> int:
    """Fill the store's slots, all empty, from others. Facts: homes keep their order: both are read in it."""
    for at in range(count):
        slot = load_u64(slots + 8 * at)
        if slot != EMPTY:
            publish(store, slot)
    return 0


@inlined
def withdraw(store: int, h: np.uint64, row: int) -> None:
    """Empty a row's slot; slots behind it move up, so that no search ends at the gap."""
    slots, mask, gap = load_i64(store + w.SLOTS), load_i64(store + w.MASK), home_of(store, h)
    while row_in(load_u64(slots + 8 * gap)) != row:
        gap = (gap + 1) & mask
    at = gap
    while True:
        at = (at + 1) & mask
        slot = load_u64(slots + 8 * at)
        if slot == EMPTY:
            break
        if (at - home_of(store, slot)) & mask >= (at - gap) & mask:
            store_u64(slots + 8 * gap, slot)
            gap = at
    store_u64(slots + 8 * gap, EMPTY)


@entry
def hash_ids(store: int, table: int, ids: int, count: int, hashes: int) -> int:
    """The hash of each id of a table."""
    key = load_u64(table_at(store, table) + w.HASH_KEY)
    for u in range(count):
        store_u64(hashes + 8 * u, hash_of(key, load_i64(ids + 8 * u)))
    return 0
