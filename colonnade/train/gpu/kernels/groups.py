"""Keys of many stores at once: found, their rows made and read. A program is of one group's store.

Legend: G groups; U distinct keys of all groups, packed group by group; N lanes, one key each. `stores`: int64 [G, 16],
a store's words below; `parts`: int64 [G, 4], of a batch's keys of a group: where they lie before they are packed, how
many there are, where they lie packed, and where their values begin (in floats, at multiples of 4).
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit, kernel
from colonnade.backends.gpu.device.tiles import unit_of
from colonnade.train.gpu.kernels.hashing import unsigned
from colonnade.train.gpu.kernels.places import floats, longs, row_at
from colonnade.train.gpu.kernels.rows import give, insert_rows, note
from colonnade.train.gpu.kernels.slots import search

STORE_WORDS = tl.constexpr(16)
KEYS_WORDS = tl.constexpr(4)
STORE_COUNTERS = tl.constexpr(7)
STORE_DIM = tl.constexpr(10)
STORE_TABLE = tl.constexpr(14)
STORE_KIND = tl.constexpr(15)


@kernel
def arrange(
    stores,
    bases,
    found,
    parts,
    looking,
    making,
    told,
    num,
    LOOK: tl.constexpr,
    MAKE: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Kernel, one program: the parts of a batch, the tiles of LOOK and of MAKE keys before each, and what is told.

    bases: int64 [G].   found: int32 [G].   looking, making: int64 [G].
    told: int64 [G, 4], how many keys there are, and the store's counters: rows handed out, free ones, slots in use.
    """
    g = tl.arange(0, GROUPS)
    live = g < num
    words = stores + STORE_WORDS * g
    count = tl.load(found + g, mask=live, other=0).to(tl.int64)
    size = (count * tl.load(words + STORE_DIM, mask=live, other=0) + 3) // 4 * 4
    look = (count + (LOOK - 1)) // LOOK
    make = (count + (MAKE - 1)) // MAKE
    part = parts + KEYS_WORDS * g
    tl.store(part, tl.load(bases + g, mask=live, other=0), mask=live)
    tl.store(part + 1, count, mask=live)
    tl.store(part + 2, tl.associative_scan(count, 0, tl.standard._sum_combine) - count, mask=live)
    tl.store(part + 3, tl.associative_scan(size, 0, tl.standard._sum_combine) - size, mask=live)
    tl.store(looking + g, tl.associative_scan(look, 0, tl.standard._sum_combine) - look, mask=live)
    tl.store(making + g, tl.associative_scan(make, 0, tl.standard._sum_combine) - make, mask=live)
    counters = longs(tl.load(words + STORE_COUNTERS, mask=live, other=0))
    tl.store(told + 4 * g, count, mask=live)
    tl.store(told + 4 * g + 1, tl.load(counters, mask=live, other=0), mask=live)
    tl.store(told + 4 * g + 2, tl.load(counters + 1, mask=live, other=0), mask=live)
    tl.store(told + 4 * g + 3, tl.load(counters + 2, mask=live, other=0), mask=live)


@jit
def tile_of_group(stores, parts, tiles, num, BLOCK: tl.constexpr):
    """A program's store and part (their words), and its lanes among the group's keys. tiles: int64 [G], before each."""
    program = tl.program_id(0)
    group = unit_of(tiles, num, program)
    lane = (program - tl.load(tiles + group)) * BLOCK + tl.arange(0, BLOCK)
    return stores + STORE_WORDS * group, parts + KEYS_WORDS * group, lane


@jit
def look_up_of(
    words,
    part,
    lane,
    hashes,
    tables,
    ids,
    counts,
    packed_hashes,
    packed_tables,
    packed_ids,
    packed_counts,
    rows,
    lacks,
    barred,
    out,
    num_step,
    FORM: tl.constexpr,
    VALUES: tl.constexpr,
    FULL: tl.constexpr,
    NOTED: tl.constexpr,
    GIVES: tl.constexpr,
):
    """Pack a group's keys, and find their rows; GIVES: write their values; NOTED: note that they were looked up."""
    inside = lane < tl.load(part + 1)
    source = tl.load(part) + lane
    first = tl.load(part + 2)
    to = first + lane
    h = tl.load(hashes + source, mask=inside, other=0)
    own = tl.load(tables + source, mask=inside, other=0)
    id_ = tl.load(ids + source, mask=inside, other=0)
    table = own - tl.load(words + STORE_TABLE).to(tl.int32)
    tl.store(packed_hashes + to, h, mask=inside)
    tl.store(packed_tables + to, table, mask=inside)
    tl.store(packed_ids + to, id_, mask=inside)
    tl.store(packed_counts + to, tl.load(counts + source, mask=inside, other=0), mask=inside)
    blocks, num_shift, row_bytes = longs(tl.load(words + 2)), tl.load(words + 3), tl.load(words + 4)
    row = search(
        longs(tl.load(words)), tl.load(words + 1), blocks, num_shift, row_bytes, unsigned(h), table, id_, inside
    )
    tl.store(rows + to, row, mask=inside)
    live = row >= 0
    refused = tl.load(barred + own, mask=inside, other=1) != 0
    tl.store(lacks + to, (inside & ~live & ~refused).to(tl.int32), mask=inside)
    address = row_at(blocks, row, live, num_shift, row_bytes)
    if NOTED:
        note(address, counts + tl.load(part), lane, num_step, live)
    if GIVES:
        of_tables, dim = longs(tl.load(words + 5)), tl.load(words + 10)
        to = out + tl.multiple_of(tl.load(part + 3), 4)
        give(to, of_tables, table, lane, address, inside, live, dim, FORM, VALUES, FULL)


@jit
def insert_of(
    words,
    part,
    lane,
    hashes,
    tables,
    ids,
    counts,
    spare,
    order,
    rows,
    out,
    num_step,
    FORM: tl.constexpr,
    NORMAL: tl.constexpr,
    TRUNCATED: tl.constexpr,
    BLOCK: tl.constexpr,
    FOURS: tl.constexpr,
    EACH_FOUR: tl.constexpr,
    STATES: tl.constexpr,
    SPARE: tl.constexpr,
):
    """A row for each of a group's keys that gets one; it counts as looked up, and its values are given."""
    first = tl.load(part + 2)
    before = tl.load(order + first - 1, mask=first > 0, other=0)
    insert_rows(
        lane, tl.load(part + 1), before, longs(tl.load(words)), tl.load(words + 1), spare, longs(tl.load(words + 2)),
        tl.load(words + 3), tl.load(words + 4), longs(tl.load(words + 5)), floats(tl.load(words + 6)),
        longs(tl.load(words + 7)), longs(tl.load(words + 8)), longs(tl.load(words + 9)), hashes + first,
        tables + first, ids + first, counts + first, order + first, rows + first,
        out + tl.multiple_of(tl.load(part + 3), 4), num_step,
        tl.load(words + 10), tl.load(words + 11), tl.load(words + 12), FORM, NORMAL, TRUNCATED, True, BLOCK, FOURS,
        EACH_FOUR, STATES, SPARE,
    )  # fmt: skip


@kernel
def account_all(stores, parts, order, num, GROUPS: tl.constexpr):
    """Kernel, one program: what `account` does, for every group."""
    g = tl.arange(0, GROUPS)
    live = g < num
    part = parts + KEYS_WORDS * g
    count = tl.load(part + 1, mask=live, other=0)
    first = tl.load(part + 2, mask=live, other=0)
    some = live & (count > 0)
    made = tl.load(order + first + count - 1, mask=some, other=0)
    made = made - tl.load(order + first - 1, mask=some & (first > 0), other=0)
    counters = longs(tl.load(stores + STORE_WORDS * g + STORE_COUNTERS, mask=live, other=0))
    num_free = tl.load(counters + 1, mask=some, other=0)
    again = tl.minimum(made, num_free)
    tl.store(counters, tl.load(counters, mask=some, other=0) + made - again, mask=some)
    tl.store(counters + 1, num_free - again, mask=some)
    tl.store(counters + 2, tl.load(counters + 2, mask=some, other=0) + made, mask=some)
