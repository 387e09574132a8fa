"""Rows of a store: made, gathered, noted, copied.

Legend: N lanes, one row each; `rows` is int64 [N], -1: no row; D embedding_dim.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit, kernel
from colonnade.backends.gpu.device.lookup import total
from colonnade.backends.gpu.device.text import any_lane
from colonnade.train.gpu.kernels.hashing import unsigned
from colonnade.train.gpu.kernels.philox import draw_four, number_in
from colonnade.train.gpu.kernels.places import (
    FLOAT32_FORM,
    ROW_COUNT,
    floats,
    ints,
    load_values,
    longs,
    row_at,
    store_values,
)
from colonnade.train.gpu.kernels.slots import TABLE_WORDS, publish

ROW_STEP = tl.constexpr(12)


@jit
def lanes_of(BLOCK: tl.constexpr):
    """int64 [BLOCK]: the lanes of a program."""
    return tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)


@jit
def add_lives(lives, table, live):
    """Count new rows of tables: those of the program's first table together."""
    first = tl.reduce(tl.where(live, table, 2147483647), 0, tl.standard._elementwise_min)
    alike = live & (table == first)
    count = total(alike.to(tl.int64))
    if count > 0:
        tl.atomic_add(lives + first, count, sem="relaxed")
    tl.atomic_add(lives + table, table.to(tl.int64) * 0 + 1, mask=live & ~alike, sem="relaxed")


@jit
def drawn(
    own, id_, block, live, NORMAL: tl.constexpr, TRUNCATED: tl.constexpr, BLOCK: tl.constexpr, FOURS: tl.constexpr
):
    """float32 [N, 4 FOURS]: new values of rows, in their order."""
    v0, v1, v2, v3 = draw_four(own, id_, block, live, NORMAL, TRUNCATED)
    return tl.reshape(tl.join(tl.join(v0, v2), tl.join(v1, v3)), (BLOCK, 4 * FOURS))


@jit
def insert_rows(
    lane,
    num,
    before,
    slots,
    num_buckets,
    spare,
    blocks,
    num_shift,
    row_bytes,
    words,
    fresh,
    counters,
    free,
    lives,
    hashes,
    tables,
    ids,
    counts,
    order,
    rows,
    out,
    num_step,
    num_dim,
    num_states,
    num_states_at,
    FORM: tl.constexpr,
    NORMAL: tl.constexpr,
    TRUNCATED: tl.constexpr,
    NOTED: tl.constexpr,
    BLOCK: tl.constexpr,
    FOURS: tl.constexpr,
    FULL: tl.constexpr,
    STATES: tl.constexpr,
    SPARE: tl.constexpr,
):
    """A row for each key that gets one. NOTED: it counts as looked up, and its values are given.

    words: int64 [tables, 8].   fresh: float32 [tables, num_states].   counters: int64, rows handed out, rows in `free`.
    lives: int64 [tables].   order: int64 [N], which new row it is from `before` + 1 on, where it is one more than the
    one before.   rows: written.   out: float32 [N, D].   num_states_at: where in a row its state lies.
    FULL: D is a multiple of 4 FOURS.
    Facts: the keys are distinct; there is room.
    """
    inside = lane < num
    new = tl.load(order + lane, mask=inside, other=0) - before
    live = inside & (new > tl.load(order + lane - 1, mask=inside & (lane > 0), other=before) - before)
    if any_lane(live):
        num_free = tl.load(counters + 1)
        listed = num_free - new
        row = tl.load(free + listed, mask=live & (listed >= 0), other=0)
        row = tl.where(listed >= 0, row, tl.load(counters) + new - num_free - 1)
        address = row_at(blocks, row, live, num_shift, row_bytes)
        id_ = tl.load(ids + lane, mask=live, other=0)
        table = tl.load(tables + lane, mask=live, other=0)
        own = words + TABLE_WORDS * table.to(tl.int64)
        begin = 0
        while 4 * begin < num_dim:
            block = begin + tl.arange(0, FOURS).to(tl.int64)
            x = drawn(own, id_, block, live, NORMAL, TRUNCATED, BLOCK, FOURS)
            k = 4 * begin + tl.arange(0, 4 * FOURS)
            if FULL:
                mask = live[:, None] & (tl.arange(0, 4 * FOURS) >= 0)[None, :]
                first = lane * tl.multiple_of(num_dim, 4)
            else:
                mask = live[:, None] & (k < num_dim)[None, :]
                first = lane * num_dim
            store_values(address, k, x, mask, FORM)
            if NOTED:
                stored = x
                if FORM != FLOAT32_FORM:
                    stored = load_values(address, k, mask, FORM)
                tl.store(out + first[:, None] + k[None, :], stored, mask=mask)
            begin += FOURS
        begin = 0
        while begin < num_states:
            s = begin + tl.arange(0, STATES)
            mask = live[:, None] & (s < num_states)[None, :]
            x = tl.load(fresh + (table.to(tl.int64) * num_states)[:, None] + s[None, :], mask=mask, other=0)
            tl.store(floats((address + num_states_at)[:, None] + 4 * s[None, :]), x, mask=mask)
            begin += STATES
        count = id_ * 0
        if NOTED:
            count = tl.load(counts + lane, mask=live, other=0).to(tl.int64)
        tl.store(longs(address), id_, mask=live)
        tl.store(ints(address + 8), table, mask=live)
        tl.store(ints(address + ROW_STEP), table * 0 + num_step, mask=live)
        tl.store(longs(address + ROW_COUNT), count, mask=live)
        tl.debug_barrier()
        publish(slots, num_buckets, spare, unsigned(tl.load(hashes + lane, mask=live, other=0)), row, live, SPARE)
        tl.store(rows + lane, row, mask=live)
        add_lives(lives, table, live)


@kernel
def insert(
    slots,
    num_buckets,
    spare,
    blocks,
    num_shift,
    row_bytes,
    words,
    fresh,
    counters,
    free,
    lives,
    hashes,
    tables,
    ids,
    counts,
    order,
    rows,
    out,
    num,
    num_step,
    num_dim,
    num_states,
    num_states_at,
    FORM: tl.constexpr,
    NORMAL: tl.constexpr,
    TRUNCATED: tl.constexpr,
    NOTED: tl.constexpr,
    BLOCK: tl.constexpr,
    FOURS: tl.constexpr,
    FULL: tl.constexpr,
    STATES: tl.constexpr,
    SPARE: tl.constexpr,
):
    """Kernel: `insert_rows` of one store."""
    insert_rows(
        lanes_of(BLOCK), num, num * 0, slots, num_buckets, spare, blocks, num_shift, row_bytes, words, fresh, counters,
        free, lives, hashes, tables, ids, counts, order, rows, out, num_step, num_dim, num_states, num_states_at, FORM,
        NORMAL, TRUNCATED, NOTED, BLOCK, FOURS, FULL, STATES, SPARE,
    )  # fmt: skip


@kernel
def account(counters, order, num):
    """Kernel, one program: the counters after `insert`: rows handed out, free ones, slots in use."""
    made = tl.load(order + num - 1)
    num_free = tl.load(counters + 1)
    again = tl.minimum(made, num_free)
    tl.store(counters, tl.load(counters) + made - again)
    tl.store(counters + 1, num_free - again)
    tl.store(counters + 2, tl.load(counters + 2) + made)


@jit
def note(address, counts, lane, num_step, live):
    """Note that rows were looked up: in which step, and how often."""
    tl.store(ints(address + ROW_STEP), (address * 0 + num_step).to(tl.int32), mask=live)
    count = longs(address + ROW_COUNT)
    more = tl.load(counts + lane, mask=live, other=0).to(tl.int64)
    tl.store(count, tl.load(count, mask=live, other=0) + more, mask=live)


@jit
def give(
    out,
    words,
    table,
    lane,
    address,
    inside,
    live,
    dim,
    FORM: tl.constexpr,
    VALUES: tl.constexpr,
    FULL: tl.constexpr,
):
    """Write the values of rows; of lanes without one, the table's default. FULL: dim is a multiple of VALUES."""
    default = number_in(words + TABLE_WORDS * table.to(tl.int64), 7, inside & ~live).to(tl.float32)
    begin = 0
    while begin < dim:
        k = begin + tl.arange(0, VALUES)
        if FULL:
            within = (tl.arange(0, VALUES) >= 0)[None, :]
            first = lane * tl.multiple_of(dim, VALUES)
        else:
            within = (k < dim)[None, :]
            first = lane * dim
        x = load_values(address, k, live[:, None] & within, FORM)
        x = tl.where(live[:, None], x, default)
        tl.store(out + first[:, None] + k[None, :], x, mask=inside[:, None] & within)
        begin += VALUES


@kernel
def touch(blocks, num_shift, row_bytes, rows, counts, num, num_step, BLOCK: tl.constexpr):
    """Kernel: note that rows were looked up. counts: int32 [N]."""
    lane = lanes_of(BLOCK)
    row = tl.load(rows + lane, mask=lane < num, other=-1)
    live = row >= 0
    note(row_at(blocks, row, live, num_shift, row_bytes), counts, lane, num_step, live)


@kernel
def gather(
    blocks,
    num_shift,
    row_bytes,
    words,
    rows,
    tables,
    out,
    num,
    dim,
    FORM: tl.constexpr,
    BLOCK: tl.constexpr,
    VALUES: tl.constexpr,
    FULL: tl.constexpr,
):
    """Kernel: `out[u] = the values of row u`, float32 [N, D]; the table's default where there is no row."""
    lane = lanes_of(BLOCK)
    inside = lane < num
    row = tl.load(rows + lane, mask=inside, other=-1)
    live = row >= 0
    address = row_at(blocks, row, live, num_shift, row_bytes)
    table = tl.load(tables + lane, mask=inside & ~live, other=0)
    give(out, words, table, lane, address, inside, live, dim, FORM, VALUES, FULL)


@kernel
def copy_part(
    blocks,
    num_shift,
    row_bytes,
    rows,
    packed,
    num,
    num_at,
    num_width,
    num_stride,
    WRITES: tl.constexpr,
    BLOCK: tl.constexpr,
    VALUES: tl.constexpr,
):
    """Kernel: a part of each row, from byte `num_at` on, to where the parts lie side by side; WRITES: from there.

    packed: [N, num_stride], of the part's items; num_width of them.
    """
    lane = lanes_of(BLOCK)
    row = tl.load(rows + lane, mask=lane < num, other=-1)
    live = row >= 0
    address = row_at(blocks, row, live, num_shift, row_bytes) + num_at
    part = address.to(packed.dtype)[:, None]
    begin = 0
    while begin < num_width:
        k = begin + tl.arange(0, VALUES)
        mask = live[:, None] & (k < num_width)[None, :]
        beside = packed + (lane * num_stride)[:, None] + k[None, :]
        if WRITES:
            tl.store(part + k[None, :], tl.load(beside, mask=mask, other=0), mask=mask)
        else:
            tl.store(beside, tl.load(part + k[None, :], mask=mask, other=0), mask=mask)
        begin += VALUES


@kernel
def mark_rows(blocks, num_shift, row_bytes, counters, num_table, marks, num, BLOCK: tl.constexpr):
    """Kernel: which rows are a table's. marks: int8 [num], written."""
    row = lanes_of(BLOCK)
    live = row < tl.load(counters)
    address = row_at(blocks, row, live, num_shift, row_bytes)
    owner = tl.load(ints(address + 8), mask=live, other=-1)
    tl.store(marks + row, (owner == num_table).to(tl.int8), mask=row < num)
