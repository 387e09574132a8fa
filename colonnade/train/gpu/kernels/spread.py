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
    while greatest((high - low).to(tl.int32)) > 1:
        middle = (low + high) // 2
        before = tl.load(offsets + middle * stride) <= at
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
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
):
    """Kernel: number rows that LEAST samples or more have, each of BLOCK samples a program's.

    matrices: int32 [F], that of a feature, -1 where its rows are of no interest.   hot: int32 [M, first], zeros before,
    one more than the number of a row.   listed: int64 [MOST], the hot rows.   found: int32 [2], 0 before: hot rows, and
    samples of a row of several.   end: N.   num: F.   stride: B + 1.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.arange(0, SAMPLES)
    own = sampled(offsets, inverse, matrices, i, end, num, stride, SAMPLES)
    others = sampled(offsets, inverse, matrices, j, end, num, stride, SAMPLES)
    same = own[:, None] == others[None, :]
    often = tl.reduce(same.to(tl.int32), 1, plus)
    before = tl.reduce((same & (j[None, :] < i[:, None])).to(tl.int32), 1, plus)
    is_key = own != NO_KEY
    tl.atomic_add(found + 1, total((is_key & (often > 1)).to(tl.int32)))
    is_hot = is_key & (often >= LEAST) & (before == 0)
    h = tl.atomic_add(found + i * 0, i * 0 + 1, mask=is_hot)
    is_hot = is_hot & (h < MOST)
    tl.store(hot + (own >> 32) * first + (own & 0xFFFFFFFF), h + 1, mask=is_hot)
    tl.store(listed + h, own, mask=is_hot)


@jit
def place_of(u, lane, hot, copies_at, mask, DIM: tl.constexpr, COPIES: tl.constexpr, MOST: tl.constexpr):
    """int64 [N]: where the gradients of rows are added. COPIES: of hot rows, 0: none are.

    Facts: the lanes of a program add to different copies of a hot row, which lie MOST rows apart: in memory that serves
    several additions at a time.
    """
    place = u.to(tl.int64) * DIM
    if COPIES > 0:
        h = tl.load(hot + u, mask=mask, other=0).to(tl.int64)
        copy = (tl.program_id(0) + lane) % COPIES * MOST + h - 1
        place = tl.where(h > 0, tl.multiple_of(copies_at, 16) + copy * DIM, place)
    return place


@jit
def spread_bags_of(
    program,
    given,
    offsets,
    inverse,
    weights,
    grads,
    hot,
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
    sums, d, is_column = values_of(grads, word, DIM, BLOCK)
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
    e = longest * 0
    while e < longest:
        more = e < length
        u = tl.load(inverse + begin + e, mask=more, other=0)
        x = g
        if WEIGHTED:
            x = g * tl.load(weights + begin + e, mask=more & (weighted != 0), other=1.0)[:, None]
        is_value = more[:, None]
        if BLOCK != DIM:
            is_value = is_value & is_column[None, :]
        to = sums + place_of(u, tl.arange(0, R), hot, copies_at, more, DIM, COPIES, MOST)[:, None] + d[None, :]
        tl.atomic_add(to, x, mask=is_value, sem="relaxed")
        e += 1
    if not UNPOOLED:
        note_long(queue, counters, unit, b, n, live & (n > SHORT), piece, R)


@jit
def spread_piece_of(
    entry,
    given,
    offsets,
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
):
    """Add the gradients of a piece of a bag that was noted.

    REPEATS: samples of rows of several from which on the elements of one row, of NEAR that follow each other, are one;
    0: none are.
    """
    word, b, begin, finish = bag_noted(entry, units, offsets, count)
    weighted = tl.load(word + 5)
    source, stride = column_of(given, word, count, ALIGN)
    sums, d, is_column = values_of(grads, word, DIM, BLOCK)
    g = tl.load(source + b * stride + d, mask=is_column, other=0.0)
    if DIVIDED:
        by = divisor_of(weights, begin, finish, finish - begin, tl.load(word + 4), weighted, WEIGHTED, 512)
        g = g * divided(1.0, by)
    start = begin + tl.load(entry + 2).to(tl.int64) * piece
    e = start
    last = tl.minimum(e + piece, finish)
    at = e + tl.arange(0, E)
    u = tl.load(inverse + at, mask=at < last, other=0)
    merges = e < e
    if REPEATS > 0:
        merges = tl.load(found + 1) >= REPEATS
    while e < last:
        at = e + tl.arange(0, E)
        more = at < last
        w = tl.full([E], 1.0, tl.float32)
        if WEIGHTED:
            w = tl.load(weights + at, mask=more & (weighted != 0), other=1.0)
        if REPEATS > 0 and merges:
            near = e - (e - start) % NEAR + tl.arange(0, NEAR)
            is_near = near < last
            same = u[:, None] == tl.load(inverse + near, mask=is_near, other=-1)[None, :]
            near_w = tl.full([NEAR], 1.0, tl.float32)
            if WEIGHTED:
                near_w = tl.load(weights + near, mask=is_near & (weighted != 0), other=1.0)
            w = tl.reduce(tl.where(same, near_w[None, :], 0.0), 1, plus)
            more = more & (tl.reduce((same & (near[None, :] < at[:, None])).to(tl.int32), 1, plus) == 0)
        is_value = more[:, None]
        if BLOCK != DIM:
            is_value = is_value & is_column[None, :]
        x = g[None, :] * w[:, None]  # no broadcast: an interpreted atomic reads its values side by side
        to = sums + place_of(u, tl.arange(0, E), hot, copies_at, more, DIM, COPIES, MOST)[:, None] + d[None, :]
        u = tl.load(inverse + at + E, mask=at + E < last, other=0)
        tl.atomic_add(to, x, mask=is_value, sem="relaxed")
        e += E


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
