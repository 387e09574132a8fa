"""The map from (table, id) to rows: buckets of eight slots, searched from a key's home on, up to an empty slot.

A slot holds 32 bits of the key's hash (its tag) and row + 1; 0: empty; a tag without a row: a row that was removed.
The key itself lies in the row.
Legend: N lanes, one key each; BLOCK of them a program.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit, kernel
from colonnade.backends.gpu.device.text import any_lane
from colonnade.train.gpu.kernels.hashing import LOW_WORD, hash_of, place_in, unsigned
from colonnade.train.gpu.kernels.places import ROW_TABLE, ints, longs, row_at

BUCKET = tl.constexpr(8)
REMOVED = tl.constexpr(1 << 32)
TABLE_WORDS = tl.constexpr(8)
"""Of a table, int64: its hash key first."""


@jit
def bucket_at(slots, at, live):
    """uint64 [N, 8]: the bucket of slot `at`; and the numbers of its slots. Slots before `at` have tag and row 0."""
    k = tl.arange(0, BUCKET)
    index = (at & -BUCKET)[:, None] + k[None, :]
    inside = live[:, None] & (index >= at[:, None])
    return unsigned(tl.load(slots + index, mask=inside, other=REMOVED, cache_modifier=".cg")), index


@jit
def first_of(chosen, index, at):
    """int64 [N]: the first chosen of the slots of a bucket; the first of the next bucket where none is."""
    beyond = ((at & -BUCKET) + BUCKET)[:, None]
    return tl.reduce(tl.where(chosen, index, beyond), 1, tl.standard._elementwise_min)


@jit
def wrapped(at, num_buckets):
    """int64 [N]: slot 0 behind the last one."""
    return tl.where(at >= num_buckets * BUCKET, 0, at)


@jit
def home_of(h, num_buckets):
    """int64 [N]: where the search for a key begins."""
    return place_in(h, unsigned((h & 0).to(tl.int64) + num_buckets)) * BUCKET


@jit
def publish(slots, num_buckets, spare, h, row, live, SPARE: tl.constexpr):
    """Let rows be found. Facts: their keys have no slots yet, and slots are free."""
    mine = (((h >> 32) << 32) | unsigned(row + 1)).to(tl.int64, bitcast=True)
    at = home_of(h, num_buckets)
    active = live
    while any_lane(active):
        bucket, index = bucket_at(slots, at, active)
        place = first_of(bucket == 0, index, at)
        free = active & (place < (at & -BUCKET) + BUCKET)
        # A compare-and-swap has no mask: lanes that want none get a word that is never what they compare with.
        to = tl.where(free, slots + place, spare + (row & (SPARE - 1)))
        old = tl.atomic_cas(to, tl.where(free, row * 0, -1), mine)
        at = wrapped(place, num_buckets)
        active = active & ~(free & (old == 0))


@jit
def search(slots, num_buckets, blocks, num_shift, row_bytes, h, table, id_, live):
    """int64 [N]: the rows of keys, -1 where there are none."""
    active = live
    at = home_of(h, num_buckets)
    found = at * 0 - 1
    while any_lane(active):
        bucket, index = bucket_at(slots, at, active)
        alike = ((bucket >> 32) == (h >> 32)[:, None]) & ((bucket & LOW_WORD) != 0)
        place = first_of((bucket == 0) | alike, index, at)
        word = tl.reduce(tl.where(index == place[:, None], bucket, 0), 1, tl.standard._sum_combine)
        within = place < (at & -BUCKET) + BUCKET
        maybe = active & within & (word != 0)
        row = (word & LOW_WORD).to(tl.int64) - 1
        address = row_at(blocks, row, maybe, num_shift, row_bytes)
        same = maybe & (tl.load(longs(address), mask=maybe, other=0) == id_)
        same = same & (tl.load(ints(address + 8 * ROW_TABLE), mask=same, other=0) == table)
        found = tl.where(same, row, found)
        active = active & ~same & ~(within & (word == 0))
        at = wrapped(tl.where(maybe, place + 1, place), num_buckets)
    return found


@kernel
def find(slots, num_buckets, blocks, num_shift, row_bytes, hashes, tables, ids, rows, num, BLOCK: tl.constexpr):
    """Kernel: the row of each key, -1 where there is none.

    hashes, ids: int64 [N].   tables: int32 [N].   rows: int64 [N], written.
    """
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = lane < num
    h = unsigned(tl.load(hashes + lane, mask=live, other=0))
    id_ = tl.load(ids + lane, mask=live, other=0)
    table = tl.load(tables + lane, mask=live, other=0)
    tl.store(rows + lane, search(slots, num_buckets, blocks, num_shift, row_bytes, h, table, id_, live), mask=live)


@jit
def hash_in(tables, address, live):
    """uint64 [N]: the hashes of the keys that lie in rows. tables: their words."""
    table = tl.load(ints(address + 8 * ROW_TABLE), mask=live, other=0).to(tl.int64)
    key = unsigned(tl.load(tables + TABLE_WORDS * table, mask=live, other=0))
    return hash_of(key, tl.load(longs(address), mask=live, other=0))


@kernel
def rehash(
    slots, num_buckets, spare, blocks, num_shift, row_bytes, tables, counters, BLOCK: tl.constexpr, SPARE: tl.constexpr
):
    """Kernel: fill slots, all empty, from the rows. counters: int64, first how many were handed out."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = row < tl.load(counters)
    address = row_at(blocks, row, live, num_shift, row_bytes)
    live = live & (tl.load(ints(address + 8 * ROW_TABLE), mask=live, other=-1) >= 0)
    publish(slots, num_buckets, spare, hash_in(tables, address, live), row, live, SPARE)


@kernel
def hash_ids(tables, num_table, ids, hashes, num, BLOCK: tl.constexpr):
    """Kernel: the hash of each id of a table."""
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = lane < num
    key = unsigned(tl.load(tables + TABLE_WORDS * num_table))
    h = hash_of(key, tl.load(ids + lane, mask=live, other=0))
    tl.store(hashes + lane, h.to(tl.int64, bitcast=True), mask=live)


@kernel
def withdraw(
    slots,
    num_buckets,
    blocks,
    num_shift,
    row_bytes,
    tables,
    rows,
    order,
    num,
    free,
    counters,
    lives,
    BLOCK: tl.constexpr,
):
    """Kernel: free rows. rows: int64 [N], -1: none.   order: int64 [N], which of the rows to free it is, from 1 on.

    free: the list, written behind those that are in it.   lives: int64 [tables], the rows of each.
    """
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + lane, mask=lane < num, other=-1)
    active = row >= 0
    behind = tl.load(order + lane, mask=active, other=1) - 1
    address = row_at(blocks, row, active, num_shift, row_bytes)
    h = hash_in(tables, address, active)
    table = tl.load(ints(address + 8 * ROW_TABLE), mask=active, other=0)
    tl.store(ints(address + 8 * ROW_TABLE), table * 0 - 1, mask=active)
    tl.store(free + tl.load(counters + 1) + behind, row, mask=active)
    tl.atomic_add(lives + table, lane * 0 - 1, mask=active, sem="relaxed")
    at = home_of(h, num_buckets)
    while any_lane(active):
        bucket, index = bucket_at(slots, at, active)
        place = first_of((bucket & LOW_WORD) == unsigned(row + 1)[:, None], index, at)
        hit = active & (place < (at & -BUCKET) + BUCKET)
        tl.store(slots + place, row * 0 + REMOVED, mask=hit)
        active = active & ~hit
        at = wrapped(place, num_buckets)
