"""Which keys get a row, by the policies of their tables.

Legend: N lanes, one key each; words: int64 [tables, 3], of each table its kind of policy and two numbers.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit, kernel
from colonnade.backends.gpu.device.text import any_lane
from colonnade.train.gpu.kernels.hashing import unsigned
from colonnade.train.gpu.kernels.philox import philox
from colonnade.train.gpu.kernels.places import ROW_COUNT, longs, row_at
from colonnade.train.gpu.kernels.rows import lanes_of
from colonnade.train.gpu.kernels.slots import search

POLICY_WORDS = tl.constexpr(3)
ADMITS_ALL = tl.constexpr(0)
ADMITS_NONE = tl.constexpr(1)
BY_CHANCE = tl.constexpr(2)
"""The key of the random numbers, and the bits of float64 1 - probability."""
BY_COUNT = tl.constexpr(3)
"""How often an id must have occurred."""
GETS_ROW = tl.constexpr(1)
IS_COUNTED = tl.constexpr(2)


@jit
def power_of(base, times):
    """float64 [N]: bases to whole powers, by squaring: the products that the policy on the CPU forms."""
    made = base * 0 + 1
    left = times
    while any_lane(left > 0):
        made = tl.where((left & 1) != 0, made * base, made)
        base = base * base
        left = left >> 1
    return made


@jit
def lucky(own, id_, times, num_step, live, BLOCK: tl.constexpr):
    """int1 [N]: whether one of an id's occurrences is admitted by chance, in a step."""
    key = unsigned(tl.load(own + 1, mask=live, other=0))
    refused = tl.load(own + 2, mask=live, other=0).to(tl.float64, bitcast=True)
    number, _, _, _ = philox(key, unsigned(id_), tl.arange(0, 1).to(tl.int64), num_step)
    share = tl.reshape(number, (BLOCK,)).to(tl.float64) * 2.3283064365386963e-10
    return live & (share < 1 - power_of(refused, times))


@kernel
def admit(
    slots,
    num_buckets,
    blocks,
    num_shift,
    row_bytes,
    words,
    hashes,
    tables,
    ids,
    counts,
    rows,
    marks,
    counted,
    num,
    num_step,
    CHANCE: tl.constexpr,
    COUNTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Kernel: of each key without a row, whether it gets one, or is counted in the store that the first five say.

    rows: int64 [N].   marks: int8 [N], written.   counted: int64 [N], written where COUNTED: its row in that store, or
    -1.   CHANCE, COUNTED: whether a table has such a policy.   Facts: changes nothing else.
    """
    lane = lanes_of(BLOCK)
    inside = lane < num
    lacks = inside & (tl.load(rows + lane, mask=inside, other=0) < 0)
    id_ = tl.load(ids + lane, mask=lacks, other=0)
    table = tl.load(tables + lane, mask=lacks, other=0)
    times = tl.load(counts + lane, mask=lacks, other=0)
    own = words + POLICY_WORDS * table.to(tl.int64)
    kind = tl.load(own, mask=lacks, other=ADMITS_NONE)
    mark = (lacks & (kind == ADMITS_ALL)).to(tl.int32) * GETS_ROW
    if CHANCE:
        chosen = lacks & (kind == BY_CHANCE)
        if any_lane(chosen):
            mark = tl.where(lucky(own, id_, times, num_step, chosen, BLOCK), GETS_ROW, mark)
    if COUNTED:
        chosen = lacks & (kind == BY_COUNT)
        h = unsigned(tl.load(hashes + lane, mask=chosen, other=0))
        row = search(slots, num_buckets, blocks, num_shift, row_bytes, h, table, id_, chosen)
        known = row >= 0
        count = longs(row_at(blocks, row, known, num_shift, row_bytes) + ROW_COUNT)
        often = tl.load(count, mask=known, other=0) + times.to(tl.int64)
        enough = often >= tl.load(own + 1, mask=chosen, other=0)
        mark = tl.where(chosen, tl.where(enough, GETS_ROW, IS_COUNTED), mark)
        tl.store(counted + lane, row, mask=inside)
    tl.store(marks + lane, mark.to(tl.int8), mask=inside)
