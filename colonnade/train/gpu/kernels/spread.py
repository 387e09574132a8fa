"""The way back from pooled outputs to the gradients of rows: many programs add to one row.

A row that many elements have is hot: its gradient is added in COPIES copies, which are added up at the end, so that few
programs wait for each other. Which rows those are, and whether elements of one bag are worth merging before they are
added, a sample of the elements tells; it decides how fast, not what.

Legend: as in `pool.py`; U rows; H hot rows.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit, kernel
from colonnade.backends.gpu.device.lookup import total
from colonnade.backends.gpu.device.reduce import plus, sum_of_rows
from colonnade.backends.gpu.device.text import greatest
from colonnade.train.gpu.kernels.pool import (
    bag_noted,
    bags_of,
    column_of,
    divided,
    divisor,
    divisor_of,
    note_long,
    values_of,
)

NOWHERE = tl.constexpr(0x7FFFFFFF)
NO_KEY = tl.constexpr(-1)
OFTEN = tl.constexpr(64)
"""One sample in so many is of a row that is met often."""
ADD_FOUR = tl.constexpr(
    "{ .reg .pred p; setp.ne.s32 p, $6, 0; mov.b32 $0, 0; "
    "@p red.relaxed.gpu.global.add.v4.f32 [$1], {$2, $3, $4, $5}; }"
)
"""Triton adds one value at a time."""


@jit
def mixed(x):
    """int64 [N]: numbers from 0 to 2^31 - 1 that look random, from small ones."""
    x = ((x >> 16) ^ x) * 0x45D9F3B & NOWHERE
    x = ((x >> 16) ^ x) * 0x45D9F3B & NOWHERE
    return (x >> 16) ^ x


@jit
def sampled(offsets, inverse, matrices, i, end, num, stride, SAMPLES: tl.constexpr):
    """int64 [N]: matrix (upper half) and row of the i-th of SAMPLES elements; NO_KEY where there is none."""
    each = end // SAMPLES
    at = i.to(tl.int64) * each + mixed(i.to(tl.int64)) % each
    low = at * 0
    high = low + num
    left = num
    while left > 1:
        middle = (low + high) // 2
        before = tl.load(offsets + middle * stride) <= at
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
        left = (left + 1) // 2
    ends = offsets + low * stride
    matrix = tl.load(matrices + low).to(tl.int64)
    is_element = (matrix >= 0) & (at >= tl.load(ends)) & (at < tl.load(ends + stride - 1))
    u = tl.load(inverse + at, mask=is_element, other=0).to(tl.int64)
    return tl.where(is_element, (matrix << 32) | u, NO_KEY)


@kernel
def find_hot(
    offsets,
    inverse,
    matrices,
    hot,
    listed,
    found,
    end,
    num,
    stride,
    first,
    SAMPLES: tl.constexpr,
    BLOCK: tl.constexpr,
    LEAST: tl.constexpr,
    MOST: tl.constexpr,
    TOP: tl.constexpr,
):
    """Kernel: number rows that LEAST samples or more have, each of BLOCK samples a program's.

    The first TOP numbers are of rows that many samples have.

    matrices: int32 [F], that of a feature, -1 where its rows are of no interest.   hot: int32 [M, first], zeros before,
    one more than the number of a row.   listed: int64 [MOST], zeros before, one more than the key of a hot row.
    found: int32 [3], zeros before: hot rows, samples of a row of several, and rows among the first TOP.
    end: N.   num: F.   stride: B + 1.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.arange(0, SAMPLES)
    others = sampled(offsets, inverse, matrices, j, end, num, stride, SAMPLES)
    own = tl.gather(others, i, 0)
    same = own[:, None] == others[None, :]
    often = tl.reduce(same.to(tl.int32), 1, plus)
    before = tl.reduce((same & (j[None, :] < i[:, None])).to(tl.int32), 1, plus)
    is_key = own != NO_KEY
    tl.atomic_add(found + 1, total((is_key & (often > 1)).to(tl.int32)))
    is_hot = is_key & (often >= LEAST) & (before == 0)
    is_top = is_hot & (often >= SAMPLES // OFTEN)
    t = tl.atomic_add(found + 2 + i * 0, i * 0 + 1, mask=is_top)
    is_top = is_top & (t < TOP)
    h = tl.atomic_add(found + i * 0, i * 0 + 1, mask=is_hot & ~is_top) + TOP
    h = tl.where(is_top, t, h)
    is_hot = is_hot & (h < MOST)
    tl.store(hot + (own >> 32) * first + (own & 0xFFFFFFFF), h + 1, mask=is_hot)
    tl.store(listed + h, own + 1, mask=is_hot)


@jit
def any_hot(found):
    """Whether any row is hot."""
    return tl.load(found) + tl.load(found + 2) > 0


@jit
def copy_of(h, lane, copies_at, DIM: tl.constexpr, COPIES: tl.constexpr, MOST: tl.constexpr):
    """int64 [N]: where a copy of the gradient of the h-th hot row lies, counted from 1."""
    copy = (tl.program_id(0) + lane) % COPIES * MOST + h.to(tl.int64) - 1
    return tl.multiple_of(copies_at, 16) + copy * DIM


@jit
def place_of(u, h, lane, copies_at, DIM: tl.constexpr, COPIES: tl.constexpr, MOST: tl.constexpr):
    """int64 [N]: where the gradients of rows are added. h: which hot rows they are, 0: none.   COPIES: of a hot row.

    Facts: the lanes of a program add to different copies of a hot row, which lie MOST rows apart: in memory that serves
    several additions at a time.
    """
    place = u.to(tl.int64) * DIM
    if COPIES > 0:
        place = tl.where(h > 0, copy_of(h, lane, copies_at, DIM, COPIES, MOST), place)
    return place


@jit
def values_from(source, at, mask, WIDE: tl.constexpr):
    """WIDE values that follow each other, from each place on."""
    x0 = tl.load(source + at, mask=mask, other=0.0)
    x1 = x0
    x2 = x0
    x3 = x0
    if WIDE == 4:
        x1 = tl.load(source + at + 1, mask=mask, other=0.0)
        x2 = tl.load(source + at + 2, mask=mask, other=0.0)
        x3 = tl.load(source + at + 3, mask=mask, other=0.0)
    return x0, x1, x2, x3


@jit
def add_values(to, x0, x1, x2, x3, mask, WIDE: tl.constexpr):
    """Add WIDE values that follow each other, from each place on. Facts: no two threads hold the same lane."""
    if WIDE == 4:
        given = [to.to(tl.int64), x0, x1, x2, x3, mask.to(tl.int32)]
        tl.inline_asm_elementwise(ADD_FOUR, "=r,l,f,f,f,f,r", given, dtype=tl.int32, is_pure=False, pack=1)
    else:
        tl.atomic_add(to, x0, mask=mask, sem="relaxed")


@jit
def spread_bags_of(
    program,
    given,
    offsets,
    inverse,
    weights,
    grads,
    hot,
    found,
    units,
    queue,
    counters,
    count,
    piece,
    copies_at,
    FIRST: tl.constexpr,
    UNITS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    R: tl.constexpr,
    SHORT: tl.constexpr,
    ALIGN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    DIVIDED: tl.constexpr,
    UNPOOLED: tl.constexpr,
    COPIES: tl.constexpr,
    MOST: tl.constexpr,
):
    """Add the gradients of a tile's bags of up to SHORT elements to those of their rows; the others are noted.

    given: the gradient of the flat output.   grads: float32 [U, D], and from `copies_at` on copies of hot rows.
    """
    unit = FIRST + program % UNITS
    word = units + unit * 8
    pooling = tl.load(word + 4)
    weighted = tl.load(word + 5)
    source, stride = column_of(given, word, count, ALIGN)
    b, live, begin, n = bags_of(program // UNITS, offsets, word, count, R, UNPOOLED)
    sums, d, is_column = values_of(grads, word, DIM, BLOCK, 1)
    length = tl.where(live & (n <= SHORT), n, 0).to(tl.int32)
    longest = greatest(length)
    is_read = (length > 0)[:, None]
    if BLOCK != DIM:
        is_read = is_read & is_column[None, :]
    g = tl.load(source + b[:, None] * stride + d[None, :], mask=is_read, other=0.0)
    if DIVIDED:
        weight = length.to(tl.float32)
        if WEIGHTED:
            weight = tl.full([R], 0.0, tl.float32)
            e = longest * 0
            while e < longest:
                w = tl.load(weights + begin + e, mask=(e < length) & (weighted != 0), other=1.0)
                weight += tl.where(e < length, tl.where(pooling == 2, w * w, w), 0.0)
                e += 1
        g = g * divided(1.0, divisor(weight, pooling))[:, None]
    h = tl.full([R], 0, tl.int32)
    has_hot = longest < 0
    if COPIES > 0:
        has_hot = any_hot(found)
    u = tl.load(inverse + begin, mask=length > 0, other=0)
    e = longest * 0
    while e < longest:
        more = e < length
        if COPIES > 0:
            h = tl.load(hot + u, mask=more & has_hot, other=0)
        x = g
        if WEIGHTED:
            x = g * tl.load(weights + begin + e, mask=more & (weighted != 0), other=1.0)[:, None]
        is_value = more[:, None]
        if BLOCK != DIM:
            is_value = is_value & is_column[None, :]
        to = sums + place_of(u, h, tl.arange(0, R), copies_at, DIM, COPIES, MOST)[:, None] + d[None, :]
        if e + 1 < longest:
            u = tl.load(inverse + begin + e + 1, mask=e + 1 < length, other=0)
        tl.atomic_add(to, x, mask=is_value & (d >= 0)[None, :], sem="relaxed")
        e += 1
    if not UNPOOLED:
        note_long(queue, counters, unit, b, begin, n, live & (n > SHORT), piece, R)


@jit
def merged_near(u, at, near, last, inverse, weights, weighted, NEAR: tl.constexpr, WEIGHTED: tl.constexpr):
    """The sums of the weights of all elements nearby of the same row, and which elements are the first of theirs."""
    is_near = near < last
    same = u[:, None] == tl.load(inverse + near, mask=is_near, other=-1)[None, :]
    w = tl.full([NEAR], 1.0, tl.float32)
    if WEIGHTED:
        w = tl.load(weights + near, mask=is_near & (weighted != 0), other=1.0)
    before = tl.reduce((same & (near[None, :] < at[:, None])).to(tl.int32), 1, plus)
    return tl.reduce(tl.where(same, w[None, :], 0.0), 1, plus), before == 0


@jit
def add_often(to, x, often, seen, is_column):
    """Add x [D] as often as float32 [E, K] say to each of K places [K, D], where int32 [E, K] are not all zeros."""
    is_seen = tl.reduce(seen, 0, plus) > 0
    sums = x[None, :] * tl.reduce(often, 0, plus)[:, None]
    tl.atomic_add(to, sums, mask=is_seen[:, None] & is_column[None, :], sem="relaxed")


@jit
def spread_piece_of(
    entry,
    given,
    inverse,
    weights,
    grads,
    hot,
    found,
    units,
    count,
    piece,
    copies_at,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    E: tl.constexpr,
    NEAR: tl.constexpr,
    ALIGN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    DIVIDED: tl.constexpr,
    COPIES: tl.constexpr,
    MOST: tl.constexpr,
    REPEATS: tl.constexpr,
    TOP: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Add the gradients of a piece of a bag that was noted.

    TOP: of so many hot rows the elements of a piece are added up before; 0: of none.
    REPEATS: samples of rows of several from which on the elements of one row, of NEAR that follow each other, are one;
    0: none are.
    """
    word, b, begin, finish = bag_noted(entry, units)
    weighted = tl.load(word + 5)
    source, stride = column_of(given, word, count, ALIGN)
    sums, d, is_column = values_of(grads, word, DIM, BLOCK, WIDE)
    start = begin + tl.load(entry + 2).to(tl.int64) * piece
    e = start
    last = tl.minimum(e + piece, finish)
    at = e + tl.arange(0, E)
    u = tl.load(inverse + at, mask=at < last, other=0)
    g0, g1, g2, g3 = values_from(source, b * stride + d, is_column, WIDE)
    by = 1.0
    if DIVIDED:
        of_bag = divisor_of(weights, begin, finish, finish - begin, tl.load(word + 4), weighted, WEIGHTED, 512)
        by = divided(1.0, of_bag)
        g0 = g0 * by
        g1 = g1 * by
        g2 = g2 * by
        g3 = g3 * by
    merges = e < e
    if REPEATS > 0:
        merges = tl.load(found + 1) >= REPEATS
    has_hot = e < e
    if COPIES > 0:
        has_hot = any_hot(found)
    h = tl.full([E], 0, tl.int32)
    if TOP > 0:
        top = tl.arange(0, TOP)
        often = tl.full([E, TOP], 0.0, tl.float32)
        seen = tl.full([E, TOP], 0, tl.int32)
    while e < last:
        at = e + tl.arange(0, E)
        more = at < last
        w = tl.full([E], 1.0, tl.float32)
        if WEIGHTED:
            w = tl.load(weights + at, mask=more & (weighted != 0), other=1.0)
        if REPEATS > 0 and merges:
            near = e - (e - start) % NEAR + tl.arange(0, NEAR)
            w, is_first = merged_near(u, at, near, last, inverse, weights, weighted, NEAR, WEIGHTED)
            more = more & is_first
        if COPIES > 0:
            h = tl.load(hot + u, mask=more & has_hot, other=0)
        if TOP > 0 and has_hot:
            is_top = more[:, None] & (h[:, None] == top[None, :] + 1)
            often += tl.where(is_top, w[:, None], 0.0)
            seen = seen | is_top.to(tl.int32)
            more = more & ((h == 0) | (h > TOP))
        is_value = more[:, None] & (d >= 0)[None, :]
        if BLOCK != DIM:
            is_value = is_value & is_column[None, :]
        x0 = g0[None, :] * w[:, None]  # no broadcast: an interpreted atomic reads its values side by side
        x1 = g1[None, :] * w[:, None]
        x2 = g2[None, :] * w[:, None]
        x3 = g3[None, :] * w[:, None]
        to = sums + place_of(u, h, tl.arange(0, E), copies_at, DIM, COPIES, MOST)[:, None] + d[None, :]
        u = tl.load(inverse + at + E, mask=at + E < last, other=0)
        add_values(to, x0, x1, x2, x3, is_value, WIDE)
        e += E
    if TOP > 0 and has_hot:
        own, column, is_own = values_of(grads, word, DIM, BLOCK, 1)
        x = tl.load(source + b * stride + column, mask=is_own, other=0.0) * by
        place = copy_of(top + 1, top * 0, copies_at, DIM, COPIES, MOST)
        add_often(own + place[:, None] + column[None, :], x, often, seen, is_own)


@jit
def add_copies_of(
    h, u, grads, copies_at, DIM: tl.constexpr, BLOCK: tl.constexpr, COPIES: tl.constexpr, MOST: tl.constexpr
):
    """The copies of a hot row, added up, added to its gradient."""
    row = grads + u * DIM
    copies = grads + copies_at + (tl.arange(0, COPIES)[:, None] * MOST + h) * DIM
    first = h * 0
    while first < DIM:
        d = first + tl.arange(0, BLOCK)[None, :]
        parts = tl.load(copies + d, mask=(d < DIM) & (tl.arange(0, COPIES)[:, None] >= 0), other=0.0)
        own = tl.load(row + d, mask=d < DIM, other=0.0)
        tl.store(row + d, own + sum_of_rows(parts), mask=d < DIM)
        first += BLOCK


# --- max, the gradients of weights, and sources in order --------------------------------------------------------------
@jit
def bag_of(units, offsets, count, num, UNPOOLED: tl.constexpr):
    """A program's bag: its unit's words, where it lies in a flat, where its elements begin and where they end."""
    program = tl.program_id(0)
    word = units + (program % num) * 8
    b = (program // num).to(tl.int64)
    place = tl.load(word + 1) * count + tl.load(word + 2) + b * tl.load(word + 3)
    if UNPOOLED:
        begin = tl.load(offsets) + b
        finish = begin + 1
    else:
        ends = offsets + tl.load(word) * (count + 1) + b
        begin = tl.load(ends)
        finish = tl.load(ends + 1)
    return word, place, begin, finish


@kernel
def own_greatest(
    rows,
    offsets,
    inverse,
    weights,
    flat,
    owners,
    units,
    count,
    num,
    DIM: tl.constexpr,
    ROW: tl.constexpr,
    BLOCK: tl.constexpr,
    E: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    """Kernel: which element a greatest value is the first of. A program a bag of a unit.

    flat: the outputs.   owners: int32, as the outputs lie; NOWHERE in empty bags.
    """
    word, place, e, finish = bag_of(units, offsets, count, num, False)
    first = tl.load(word + 7)
    weighted = tl.load(word + 5)
    d = tl.arange(0, BLOCK)[None, :]
    is_column = d < DIM - first
    most = tl.load(flat + place + d, mask=is_column, other=0.0)
    owner = tl.full([E, BLOCK], NOWHERE, tl.int32)
    while e < finish:
        at = e + tl.arange(0, E)
        more = at < finish
        u = tl.load(inverse + at, mask=more, other=0).to(tl.int64)
        x = tl.load(rows + first + u[:, None] * ROW + d, mask=more[:, None] & is_column, other=0.0)
        if WEIGHTED:
            x = x * tl.load(weights + at, mask=more & (weighted != 0), other=1.0)[:, None]
        hit = more[:, None] & ((x == most) | ((x != x) & (most != most)))
        owner = tl.minimum(owner, tl.where(hit, at.to(tl.int32)[:, None], NOWHERE))
        e += E
    tl.store(owners + place + d, tl.reduce(owner, 0, tl.standard._elementwise_min, keep_dims=True), mask=is_column)


@kernel
def spread_greatest(
    given,
    owners,
    inverse,
    weights,
    grads,
    units,
    count,
    num,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    R: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    """Kernel: add the gradient of each greatest value to that of its element's row."""
    program = tl.program_id(0)
    word = units + (program % num) * 8
    b = (program // num).to(tl.int64) * R + tl.arange(0, R)[:, None]
    d = tl.arange(0, BLOCK)[None, :]
    place = tl.load(word + 1) * count + tl.load(word + 2) + b * tl.load(word + 3) + d
    first = tl.load(word + 7)
    live = (b < count) & (d < DIM - first)
    owner = tl.load(owners + place, mask=live, other=NOWHERE)
    live = live & (owner != NOWHERE)
    g = tl.load(given + place, mask=live, other=0.0)
    if WEIGHTED:
        g = g * tl.load(weights + owner, mask=live & (tl.load(word + 5) != 0), other=1.0)
    u = tl.load(inverse + owner, mask=live, other=0).to(tl.int64)
    tl.atomic_add(grads + first + u * DIM + d, g, mask=live, sem="relaxed")


@kernel
def weigh(
    rows,
    offsets,
    inverse,
    weights,
    flat,
    given,
    owners,
    made,
    units,
    count,
    num,
    DIM: tl.constexpr,
    ROW: tl.constexpr,
    BLOCK: tl.constexpr,
    E: tl.constexpr,
    MAX: tl.constexpr,
    DIVIDED: tl.constexpr,
    UNPOOLED: tl.constexpr,
):
    """Kernel: add the gradients of weights to `made`. A program a bag; BLOCK holds a whole row."""
    word, place, e, finish = bag_of(units, offsets, count, num, UNPOOLED)
    pooling = tl.load(word + 4)
    d = tl.arange(0, BLOCK)[None, :]
    g = tl.load(given + place + d, mask=d < DIM, other=0.0)
    along = 0.0
    scale = 1.0
    if tl.load(word + 7) != 0:
        finish = e  # the unit of a row's first values sees to the whole row
    if DIVIDED:
        scale = divided(1.0, divisor_of(weights, e, finish, finish - e, pooling, 1, True, 512))
        pooled = tl.load(flat + place + d, mask=d < DIM, other=0.0)
        along = tl.where(pooling == 0, 0.0, tl.reduce(tl.reduce(g * pooled, 1, plus), 0, plus))
    if tl.load(word + 5) != 0:
        while e < finish:
            at = e + tl.arange(0, E)
            more = at < finish
            u = tl.load(inverse + at, mask=more, other=0).to(tl.int64)
            is_value = more[:, None] & (d < DIM)
            x = tl.load(rows + u[:, None] * ROW + d, mask=is_value, other=0.0)
            if MAX:
                is_owner = tl.load(owners + place + d, mask=d < DIM, other=NOWHERE) == at[:, None]
                own = tl.reduce(tl.where(is_value & is_owner, x * g, 0.0), 1, plus)
            else:
                own = tl.reduce(x * g, 1, plus)
            if DIVIDED:
                w = tl.load(weights + at, mask=more, other=0.0)
                own = (own - tl.where(pooling == 2, along * w * scale, along)) * scale
            before = tl.load(made + at, mask=more, other=0.0)
            tl.store(made + at, before + own, mask=more)
            e += E


@kernel
def list_sources(
    offsets,
    inverse,
    weights,
    keys,
    sources,
    factors,
    units,
    count,
    num,
    E: tl.constexpr,
    ALIGN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    DIVIDED: tl.constexpr,
    UNPOOLED: tl.constexpr,
):
    """Kernel: each element's row, where the gradient that it adds lies, and by what that is multiplied.

    A program a bag.   keys, sources (in ALIGN numbers): int64 [N].   factors: float32 [N].
    """
    word, place, e, finish = bag_of(units, offsets, count, num, UNPOOLED)
    weighted = tl.load(word + 5)
    scale = 1.0
    if tl.load(word + 7) != 0:
        finish = e  # as above
    if DIVIDED:
        scale = divided(1.0, divisor_of(weights, e, finish, finish - e, tl.load(word + 4), weighted, WEIGHTED, 512))
    while e < finish:
        at = e + tl.arange(0, E)
        more = at < finish
        factor = tl.full([E], 1.0, tl.float32) * scale
        if WEIGHTED:
            factor = factor * tl.load(weights + at, mask=more & (weighted != 0), other=1.0)
        tl.store(keys + at, tl.load(inverse + at, mask=more, other=0).to(tl.int64), mask=more)
        tl.store(sources + at, at * 0 + place // ALIGN, mask=more)
        tl.store(factors + at, factor, mask=more)
        e += E
