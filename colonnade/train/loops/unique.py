"""Distinct keys of a batch, in the order in which they first occur.

Legend: `features` is the address of F features of UNIQUE_BYTES; N ids; U distinct keys.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch
from colonnade.backends.memory import load_i32, load_i64, load_u64, store_i32, store_i64, store_u64
from colonnade.train.loops import words as w
from colonnade.train.loops.entry import entry
from colonnade.train.loops.slots import ABREAST, BITS, EMPTY, LOW, U64, hash_of, table_at

# A feature.
TABLE = 0
IDS = 8  # address of its ids
SIZE = 16  # how many
INVERSE = 24  # address of the number of each id's key, int32, written
UNIQUE_BYTES = 32


@entry
def unique(
    store: int, features: int, count: int, slots: int, mask: int, hashes: int, tables: int, ids: int, counts: int
) -> int:
    """Number the distinct (table, id); gives how many there are.

    slots: uint64 [mask + 1], at least twice as many as ids; overwritten.   hashes, tables, ids, counts: of the keys,
    written.
    """
    for s in range(mask + 1):
        store_u64(slots + 8 * s, EMPTY)
    found = 0
    for f in range(count):
        feature = features + UNIQUE_BYTES * f
        table, values, inverse = load_i64(feature + TABLE), load_i64(feature + IDS), load_i64(feature + INVERSE)
        key, size = load_u64(table_at(store, table) + w.HASH_KEY), load_i64(feature + SIZE)
        for start in range(0, size, ABREAST):
            end = min(start + ABREAST, size)
            for i in range(start, end):
                prefetch(slots + 8 * (np.int64(hash_of(key, load_i64(values + 8 * i))) & mask))
            for i in range(start, end):
                id_ = load_i64(values + 8 * i)
                h = hash_of(key, id_)
                tag, at = h >> BITS, np.int64(h) & mask
                while True:
                    slot = load_u64(slots + 8 * at)
                    if slot == EMPTY:
                        u = found
                        found += 1
                        store_u64(slots + 8 * at, (tag << BITS) | U64(u + 1))
                        store_u64(hashes + 8 * u, h)
                        store_i64(tables + 8 * u, table)
                        store_i64(ids + 8 * u, id_)
                        store_i32(counts + 4 * u, np.int32(0))
                        break
                    u = np.int64(slot & LOW) - 1
                    if slot >> BITS == tag and load_i64(ids + 8 * u) == id_ and load_i64(tables + 8 * u) == table:
                        break
                    at = (at + 1) & mask
                store_i32(inverse + 4 * i, np.int32(u))
                store_i32(counts + 4 * u, np.int32(load_i32(counts + 4 * u) + 1))
    return found
