"""The map from (table, id) to rows: open addressing, one 64-bit word a slot, searched slot by slot from a key's home.

A slot holds 32 bits of the key's hash (its tag) and row + 1; the key itself lies in the row, and is written before the
slot is. The home is other bits of the hash.
Legend: `store` is the address of a store's words; U distinct keys; `rows` is int64 [U], -1: no row.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch
from colonnade.backends.memory import inlined, kernel, load_i64, load_u64, store_i64, store_u64
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import entry

U64 = np.uint64
SPREAD, MIX = U64(0x9E3779B97F4A7C15), U64(0xD6E8FEB86659FD93)
BITS, FOLD = U64(32), U64(29)
LOW = U64(0xFFFFFFFF)
EMPTY = U64(0)
ABREAST = 32
"""Keys whose memory is asked for before the first of them is looked at."""


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
def search(store: int, at: int, tag: np.uint64, table: int, id_: int) -> int:
    """The slot of a key, from slot `at` on; -1 where an empty one comes first."""
    slots, mask = load_i64(store + w.SLOTS), load_i64(store + w.MASK)
    while True:
        at = next_like(slots, mask, at, tag)
        slot = load_u64(slots + 8 * at)
        if slot == EMPTY:
            return -1
        row = row_at(store, row_in(slot))
        if load_i64(row + w.ID) == id_ and load_i64(row + w.TABLE) == table:
            return at
        at = (at + 1) & mask


@entry
def find(store: int, hashes: int, tables: int, ids: int, count: int, rows: int) -> int:
    """The row of each key; gives how many have none.

    hashes: uint64 [U].   tables: int64 [U].   ids: int64 [U].   rows: written.
    """
    slots, mask, missing = load_i64(store + w.SLOTS), load_i64(store + w.MASK), 0
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
                prefetch(row_at(store, row_in(slot)))
        for u in range(start, end):
            at = load_i64(rows + 8 * u)
            if at >= 0:
                tag = load_u64(hashes + 8 * u) >> BITS
                at = search(store, at, tag, load_i64(tables + 8 * u), load_i64(ids + 8 * u))
            missing += 1 if at < 0 else 0
            store_i64(rows + 8 * u, at if at < 0 else row_in(load_u64(slots + 8 * at)))
    return missing


@inlined
def publish(store: int, h: np.uint64, row: int) -> None:
    """Let a row that is written be found. Facts: its key has no slot yet, and one is free."""
    slots, mask = load_i64(store + w.SLOTS), load_i64(store + w.MASK)
    at = np.int64(h) & mask
    while load_u64(slots + 8 * at) != EMPTY:
        at = (at + 1) & mask
    store_u64(slots + 8 * at, ((h >> BITS) << BITS) | U64(row + 1))


@kernel
def _hash_in(store: int, row: int) -> np.uint64:
    """The hash of the key that lies in a row."""
    at = row_at(store, row)
    return hash_of(load_u64(table_at(store, load_i64(at + w.TABLE)) + w.HASH_KEY), load_i64(at + w.ID))


@entry
def rehash(store: int) -> int:
    """Fill the store's slots, all empty, from its rows."""
    for row in range(load_i64(store + w.NUM_ROWS)):
        if load_i64(row_at(store, row) + w.TABLE) >= 0:
            publish(store, _hash_in(store, row), row)
    return 0


@kernel
def withdraw(store: int, row: int) -> None:
    """Empty a row's slot; slots behind it move up, so that no search ends at the gap."""
    slots, mask = load_i64(store + w.SLOTS), load_i64(store + w.MASK)
    gap = np.int64(_hash_in(store, row)) & mask
    while row_in(load_u64(slots + 8 * gap)) != row:
        gap = (gap + 1) & mask
    at = gap
    while True:
        at = (at + 1) & mask
        slot = load_u64(slots + 8 * at)
        if slot == EMPTY:
            break
        home = np.int64(_hash_in(store, row_in(slot))) & mask
        if (at - home) & mask >= (at - gap) & mask:
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
