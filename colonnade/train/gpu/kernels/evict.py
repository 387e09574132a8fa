"""Which rows the policies of tables may give up.

Legend: N lanes, one row each; policies: int64 [tables, 2], a table's kind of policy and how many steps, or rows.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import kernel
from colonnade.train.gpu.kernels.places import ROW_TABLE, ints, row_at
from colonnade.train.gpu.kernels.rows import ROW_STEP, lanes_of

EVICT_WORDS = tl.constexpr(2)
BY_AGE = tl.constexpr(1)
"""Other policies than none and this one keep so many rows."""


@kernel
def mark_old(blocks, num_shift, row_bytes, counters, policies, lives, marks, num, num_step, BLOCK: tl.constexpr):
    """Kernel: which rows have an age at which they go (1), or are of tables that have more rows than they keep (2).

    counters: int64, first how many rows were handed out.   lives: int64 [tables], the rows of each.   marks: int8 [N],
    written.
    """
    row = lanes_of(BLOCK)
    address = row_at(blocks, row, row < tl.load(counters), num_shift, row_bytes)
    table = tl.load(ints(address + 8 * ROW_TABLE), mask=row < tl.load(counters), other=-1).to(tl.int64)
    live = table >= 0
    kind = tl.load(policies + EVICT_WORDS * table, mask=live, other=0)
    bound = tl.load(policies + EVICT_WORDS * table + 1, mask=live, other=0)
    last = tl.load(ints(address + ROW_STEP), mask=live, other=0).to(tl.int64)
    aged = (kind == BY_AGE) & (last <= num_step - bound)
    full = (kind > BY_AGE) & (tl.load(lives + table, mask=live, other=0) > bound)
    tl.store(marks + row, tl.where(aged, 1, tl.where(full, 2, 0)).to(tl.int8), mask=row < num)
