"""Distinct keys of a batch by a hash table that is kept: a slot that another batch wrote counts as empty.

A slot is the batch's stamp (8 bits), the number of the table and bits of the hash (24), and a place in the batch (32)
where the key stands: that place owns the key. What a slot's key is, the batch itself says, which nobody writes.

Tables fall into groups, whose keys are numbered apart: those of a group lie from its base on, where as many ids lie
before as features of other groups before it have.

Legend: N ids; F features, int64 [F, 8] of (table, start, size, hash key, shift, base, group, -), group by group and
table by table; U distinct keys. A tile is BLOCK ids of one feature. Where keys are ordered, an id's rank is its place
and the shift: ids of a table lie side by side by it.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit, kernel
from colonnade.backends.gpu.device.lookup import total
from colonnade.backends.gpu.device.text import any_lane
from colonnade.backends.gpu.device.tiles import unit_of
from colonnade.train.gpu.kernels.hashing import LOW_WORD, hash_of, place_in, unsigned
from colonnade.train.gpu.kernels.swap import swap_if


@jit
def tile_of(features, tiles, num, BLOCK: tl.constexpr):
    """A program's feature (its words), the places of its ids, and which there are. tiles: int64 [F], those before."""
    program = tl.program_id(0)
    feature = unit_of(tiles, num, program)
    words = features + 8 * feature
    within = (program - tl.load(tiles + feature)) * BLOCK + tl.arange(0, BLOCK)
    return words, tl.load(words + 1) + within, within < tl.load(words + 2)


@jit
def sample_of(features, tiles, num, BLOCK: tl.constexpr, TILE: tl.constexpr):
    """What `tile_of` gives, of BLOCK places at equal distances over all ids, each with the words of its feature."""
    lane = tl.arange(0, BLOCK).to(tl.int64)
    last = num - 1
    after = tl.load(tiles + last) * TILE + tl.load(features + 8 * last + 2)
    place = lane * after // BLOCK
    tile = place // TILE
    low = tile * 0
    high = low + num
    while any_lane(low + 1 < high):
        middle = (low + high) // 2
        before = tl.load(tiles + middle) <= tile
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
    words = features + 8 * low
    within = place - tl.load(tiles + low) * TILE
    return words, tl.load(words + 1) + within, within < tl.load(words + 2)


@jit
def put_key(hashes, tables, ids, counts, u, h, table, id_, owns):
    """Write the keys that lanes own."""
    tl.store(hashes + u, h.to(tl.int64, bitcast=True), mask=owns)
    tl.store(tables + u, (id_ * 0 + table).to(tl.int32), mask=owns)
    tl.store(ids + u, id_, mask=owns)
    tl.store(counts + u, u.to(tl.int32) * 0 + 1, mask=owns)


@kernel
def own(
    values,
    features,
    tiles,
    num,
    slots,
    spare,
    num_slots,
    num_stamp,
    num_bits,
    owners,
    numbers,
    found,
    hashes,
    tables,
    ids,
    counts,
    BLOCK: tl.constexpr,
    SPARE: tl.constexpr,
    MASKED: tl.constexpr,
    ORDERED: tl.constexpr,
    SAMPLED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Kernel: the owner of each id's key; owners are numbered as they come, unless ORDERED.

    SAMPLED: one program, for a sample of all ids alone, so that frequent keys have the first numbers.
    tiles: of TILE ids.

    slots: int64 [num_slots], at least twice N.   spare: int64 [SPARE], zeros.   num_bits: of the hash in a slot.
    owners: int32 [N], written.   numbers: int32 [N], written where an id owns its key.
    found: int32 [groups], zeros before.
    """
    if SAMPLED:
        words, at, live = sample_of(features, tiles, num, BLOCK, TILE)
    else:
        words, at, live = tile_of(features, tiles, num, BLOCK)
    table = tl.load(words)
    id_ = tl.load(values + at, mask=live, other=0)
    h = hash_of(unsigned(tl.load(words + 3)), id_)
    bits = (at * 0 + num_bits).to(tl.uint64)
    batch = (at * 0 + num_stamp).to(tl.uint64)
    upper = (batch << 24) | (unsigned(at * 0 + table) << bits) | (h >> (64 - bits))
    mine = ((upper << 32) | unsigned(at)).to(tl.int64, bitcast=True)
    slot = place_in(h, unsigned(at * 0 + num_slots))
    owner = at
    owns = live & (at < 0)
    active = live
    # A cache may hold an older word, which the swap finds out; it keeps frequent keys, which a sample put there before.
    cur = tl.load(slots + slot, mask=active, other=0)
    while any_lane(active):
        word = unsigned(cur)
        free = active & ((word >> 56) != batch)
        alike = active & ((word >> 32) == upper)
        place = (word & LOW_WORD).to(tl.int64)
        hit = alike & (tl.load(values + place, mask=alike, other=0) == id_)
        owner = tl.where(hit, place, owner)
        # What a slot says was there before the kernel began: nothing else must be seen with it.
        old = swap_if(slots, slot, spare, cur, mine, free, SPARE, MASKED)
        won = free & (old == cur)
        owns = owns | won
        passed = active & ~free & ~hit
        slot = tl.where(passed, slot + 1, slot)
        slot = tl.where(slot == num_slots, 0, slot)
        active = active & ~hit & ~won
        next = tl.load(slots + slot, mask=passed, other=0, cache_modifier=".cg")
        cur = tl.where(free, old, next)
    tl.store(owners + at, owner.to(tl.int32), mask=live)
    if ORDERED:
        tl.store(numbers + at, (at + tl.load(words + 4)).to(tl.int32), mask=owns)
    else:
        one = owns.to(tl.int32)
        group = tl.load(words + 6)
        if SAMPLED:
            u = tl.atomic_add(found + group, one, mask=owns, sem="relaxed")
        else:
            first = tl.atomic_add(found + group, total(one), sem="relaxed")
            u = first + tl.associative_scan(one, 0, tl.standard._sum_combine) - one
        tl.store(numbers + at, u, mask=owns)
        put_key(hashes, tables, ids, counts, tl.load(words + 5) + u.to(tl.int64), h, table, id_, owns)


@kernel
def earliest(features, tiles, num, owners, numbers, BLOCK: tl.constexpr):
    """Kernel: `numbers` of an owner becomes the first rank of its key."""
    words, at, live = tile_of(features, tiles, num, BLOCK)
    owner = tl.load(owners + at, mask=live, other=0)
    seen = tl.load(numbers + owner, mask=live, other=0, cache_modifier=".cg")
    rank = (at + tl.load(words + 4)).to(tl.int32)
    tl.atomic_min(numbers + owner, rank, mask=live & (rank < seen), sem="relaxed")


@kernel
def lead(features, tiles, num, owners, numbers, leads, BLOCK: tl.constexpr):
    """Kernel: each id's owner becomes the first rank of its key. leads: int32 [N], by rank, whether that is its own."""
    words, at, live = tile_of(features, tiles, num, BLOCK)
    owner = tl.load(owners + at, mask=live, other=0)
    first = tl.load(numbers + owner, mask=live, other=0)
    rank = at + tl.load(words + 4)
    tl.store(owners + at, first, mask=live)
    tl.store(leads + rank, (first == rank).to(tl.int32), mask=live)


@kernel
def list_keys(
    values, features, tiles, num, owners, sums, numbers, found, hashes, tables, ids, counts, BLOCK: tl.constexpr
):
    """Kernel: write and number the keys of ids that are the first of theirs.

    sums: int32 [N], by rank, how many keys have theirs up to there.   numbers: int32 [N], written there.
    """
    words, at, live = tile_of(features, tiles, num, BLOCK)
    rank = at + tl.load(words + 4)
    base = tl.load(words + 5)
    owns = live & (tl.load(owners + at, mask=live, other=0) == rank)
    before = tl.load(sums + base - 1, mask=base > 0, other=0)
    u = tl.load(sums + rank, mask=owns, other=1) - before - 1
    tl.store(numbers + rank, u, mask=owns)
    id_ = tl.load(values + at, mask=owns, other=0)
    h = hash_of(unsigned(tl.load(words + 3)), id_)
    put_key(hashes, tables, ids, counts, base + u.to(tl.int64), h, tl.load(words), id_, owns)
    tl.atomic_add(found + tl.load(words + 6), total(owns.to(tl.int32)), sem="relaxed")


@kernel
def settle(
    features,
    tiles,
    num,
    inverse,
    numbers,
    counts,
    BLOCK: tl.constexpr,
    FIRST: tl.constexpr,
    COUNTED: tl.constexpr,
):
    """Kernel: owners in `inverse` become the numbers of their keys; ids that own none are counted.

    The frequent keys have the first numbers, and are counted in a program before they are added: the FIRST one by one,
    those up to COUNTED in bins, which are slow where one is filled by many.
    """
    words, at, live = tile_of(features, tiles, num, BLOCK)
    owner = tl.load(inverse + at, mask=live, other=0)
    u = tl.load(numbers + owner, mask=live, other=0)
    tl.store(inverse + at, u, mask=live)
    own_counts = counts + tl.load(words + 5)
    repeats = live & (owner != at + tl.load(words + 4))
    if any_lane(repeats):
        k = tl.arange(0, FIRST)
        first = repeats & (u < FIRST)
        if any_lane(first):
            alike = (u[:, None] == k[None, :]) & first[:, None]
            often = tl.reduce(alike.to(tl.int32), 0, tl.standard._sum_combine)
            tl.atomic_add(own_counts + k, often, mask=often > 0, sem="relaxed")
        low = repeats & ~first & (u < COUNTED)
        if any_lane(low):
            often = tl.histogram(u, COUNTED, mask=low)
            key = tl.arange(0, COUNTED)
            tl.atomic_add(own_counts + key, often, mask=often > 0, sem="relaxed")
        tl.atomic_add(own_counts + u, at.to(tl.int32) * 0 + 1, mask=repeats & ~first & ~low, sem="relaxed")


@jit
def later(a, b):
    """The greater of two places. Triton's own is a compiled function, which an interpreted scan cannot call."""
    return tl.where(a > b, a, b)


@kernel
def describe(
    members,
    offsets,
    num_stride,
    num_end,
    features,
    owning,
    counting,
    bases,
    num,
    SHIFTED: tl.constexpr,
    OWN: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Kernel, one program: the features' words, and how many tiles of OWN and of COUNT ids lie before each.

    members: int64 [F, 4] of (row of `offsets`, table, hash key, group).   offsets: int64 [rows, num_stride], the ids of
    a feature from column 0 to num_end.   bases: int64 [groups], written.
    """
    before = tl.load(members) * 0
    owned, counted, first = before, before, before
    begin = 0
    while begin < num:
        f = begin + tl.arange(0, BLOCK)
        live = f < num
        member = members + 4 * f
        ends = offsets + tl.load(member, mask=live, other=0) * num_stride
        start = tl.load(ends, mask=live, other=0)
        size = tl.load(ends + num_end, mask=live, other=0) - start
        group = tl.load(member + 3, mask=live, other=0)
        rank = before + tl.associative_scan(size, 0, tl.standard._sum_combine) - size
        leads = live & ((f == 0) | (group != tl.load(member - 1, mask=live & (f > 0), other=-1)))
        base = tl.associative_scan(tl.where(leads, rank, first), 0, later)
        tl.store(bases + group, rank, mask=leads)
        words = features + 8 * f
        tl.store(words, tl.load(member + 1, mask=live, other=0), mask=live)
        tl.store(words + 1, start, mask=live)
        tl.store(words + 2, size, mask=live)
        tl.store(words + 3, tl.load(member + 2, mask=live, other=0), mask=live)
        if SHIFTED:
            tl.store(words + 4, rank - start, mask=live)
        else:
            tl.store(words + 4, size * 0, mask=live)
        tl.store(words + 5, base, mask=live)
        tl.store(words + 6, group, mask=live)
        own = (size + (OWN - 1)) // OWN
        count = (size + (COUNT - 1)) // COUNT
        tl.store(owning + f, owned + tl.associative_scan(own, 0, tl.standard._sum_combine) - own, mask=live)
        tl.store(counting + f, counted + tl.associative_scan(count, 0, tl.standard._sum_combine) - count, mask=live)
        first = tl.reduce(base, 0, later)
        before += total(size)
        owned += total(own)
        counted += total(count)
        begin += BLOCK
