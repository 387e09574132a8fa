"""Distinct keys of a batch: table by table, in each in the order in which they first occur.

A table's ids have slots of their own, which the next table's use again: those of small tables stay in the caches. The
hash of ids of one table is a bijection (`hash_of`), so that equal hashes are equal ids.

Legend: `features` is the address of F features of UNIQUE_BYTES; N ids; U distinct keys.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch, scratch
from colonnade.backends.memory import inlined, load_i32, load_i64, load_u64, store_i32, store_i64, store_u64
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import entry
from colonnade.train.loops.slots import hash_of, table_at

# A feature.
TABLE = 0
IDS = 8  # address of its ids
SIZE = 16  # how many
INVERSE = 24  # address of the number of each id's key, int32, written
MASK = 32  # the number of slots of its table less one: at least twice as many as ids of all its features
UNIQUE_BYTES = 40

SLOT_BYTES = 4
ABREAST = 32
"""Ids whose memory is asked for before the first of them is looked at."""
CACHED = 1 << 13
"""So many slots stay in the nearest cache: nothing has to be asked for ahead."""

_hashes = scratch(8 * ABREAST)


@inlined
def _number(
    slots: int,
    mask: int,
    h: np.uint64,
    id_: int,
    table: int,
    found: int,
    hashes: int,
    tables: int,
    ids: int,
    counts: int,
) -> int:
    """The number of a key; `found` where it is new, and then written down."""
    at = np.int64(h) & mask
    while True:
        u = load_i32(slots + SLOT_BYTES * at) - 1
        if u < 0:
            store_i32(slots + SLOT_BYTES * at, np.int32(found + 1))
            store_u64(hashes + 8 * found, h)
            store_i64(tables + 8 * found, table)
            store_i64(ids + 8 * found, id_)
            store_i32(counts + 4 * found, np.int32(1))
            return found
        if load_u64(hashes + 8 * u) == h:
            store_i32(counts + 4 * u, np.int32(load_i32(counts + 4 * u) + 1))
            return u
        at = (at + 1) & mask


@inlined
def _foresee(slots: int, mask: int, key: np.uint64, values: int, n: int, room: int, hashes: int, counts: int) -> None:
    """The hashes of n ids; their slots and what those point to are asked for."""
    for i in range(n):
        h = hash_of(key, load_i64(values + 8 * i))
        store_u64(room + 8 * i, h)
        prefetch(slots + SLOT_BYTES * (np.int64(h) & mask))
    for i in range(n):
        # Of an empty slot too: to ask for nothing costs less than to guess whether there is something to ask for.
        u = load_i32(slots + SLOT_BYTES * (np.int64(load_u64(room + 8 * i)) & mask)) - 1
        prefetch(hashes + 8 * u)
        prefetch(counts + 4 * u)


@entry
def unique(store: int, features: int, count: int, slots: int, hashes: int, tables: int, ids: int, counts: int) -> int:
    """Number the distinct (table, id); gives how many there are.

    features: those of one table are neighbours.
    slots: int32, number + 1, 0: empty; as many as the largest table has; overwritten.
    hashes, tables, ids, counts: of the keys, written.
    """
    found, previous, room = 0, -1, _hashes()
    for f in range(count):
        feature = features + UNIQUE_BYTES * f
        table, mask = load_i64(feature + TABLE), load_i64(feature + MASK)
        values, inverse, size = load_i64(feature + IDS), load_i64(feature + INVERSE), load_i64(feature + SIZE)
        if table != previous:
            for s in range(mask + 1):
                store_i32(slots + SLOT_BYTES * s, np.int32(0))
            previous = table
        key = load_u64(table_at(store, table) + w.HASH_KEY)
        if mask < CACHED:
            for i in range(size):
                id_ = load_i64(values + 8 * i)
                u = _number(slots, mask, hash_of(key, id_), id_, table, found, hashes, tables, ids, counts)
                found += 1 if u == found else 0
                store_i32(inverse + 4 * i, np.int32(u))
            continue
        for start in range(0, size, ABREAST):
            n = min(ABREAST, size - start)
            _foresee(slots, mask, key, values + 8 * start, n, room, hashes, counts)
            for i in range(start, start + n):
                h, id_ = load_u64(room + 8 * (i - start)), load_i64(values + 8 * i)
                u = _number(slots, mask, h, id_, table, found, hashes, tables, ids, counts)
                found += 1 if u == found else 0
                store_i32(inverse + 4 * i, np.int32(u))
    return found
