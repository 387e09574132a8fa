"""Pooling: short bags many at a time, each a lane; long ones noted, cut into pieces, and pooled by a second launch.

Every value has one writer. A bag of several pieces leaves their sums in memory; the program that comes last adds them
in the order of the pieces: the same bits each run. `gpu/launches.py` writes the kernels: a branch a group of segments.

Legend: S units (segments of a group, those wider than BLOCK several times); B batch rows; N elements; D embedding_dim;
R bags of a tile; E elements of a step. A unit is eight words: feature, where its column begins in the flat output
(`before`, to be multiplied by B, and `at`), the stride between batch rows, how it is pooled, whether it is weighted,
its group, and its first value of a row.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.lookup import total
from colonnade.backends.gpu.device.reduce import greatest_row, sum_of_rows
from colonnade.backends.gpu.device.text import greatest

ENTRY = tl.constexpr(8)
"""Words of a piece that is noted, int32."""


@jit
def nothing(N: tl.constexpr, BLOCK: tl.constexpr):
    """-0.0: what changes no value that it is added to, -0.0 included. Triton takes a literal -0.0 for 0.0."""
    return tl.full([N, BLOCK], -2147483648, tl.int32).to(tl.float32, bitcast=True)


@jit
def joined(sums, x, MAX: tl.constexpr):
    """Sums and rows as one; or the greater of both."""
    if MAX:
        made = tl.maximum(sums, x, propagate_nan=tl.PropagateNan.ALL)
    else:
        made = sums + x
    return made


@jit
def divisor(weight, pooling):
    """What a sum is divided by, given the sum of its weights, or of their squares."""
    return tl.where(pooling == 2, tl.sqrt_rn(weight), tl.where(pooling == 1, weight, 1.0))


@jit
def divided(sums, by):
    """Quotients; 0 where the divisor is."""
    return tl.where(by == 0.0, 0.0, tl.div_rn(sums, tl.where(by == 0.0, 1.0, by)))


@jit
def divisor_of(weights, begin, finish, n, pooling, weighted, WEIGHTED: tl.constexpr, STEP: tl.constexpr):
    """What the sum over one bag is divided by, times 1: 0 means that nothing is left of it."""
    weight = n.to(tl.float32)
    if WEIGHTED and weighted != 0:
        sums = tl.full([STEP], 0.0, tl.float32)
        e = begin
        while e < finish:
            at = e + tl.arange(0, STEP)
            w = tl.load(weights + at, mask=at < finish, other=0.0)
            sums += tl.where(pooling == 2, w * w, w)
            e += STEP
        weight = total(sums)
    return divisor(weight, pooling)


@jit
def note_long(queue, counters, unit, b, begin, n, is_long, piece, R: tl.constexpr):
    """Write down the pieces of long bags: unit, batch row, piece, where the bag's partial sums begin, its elements."""
    pieces = tl.where(is_long, (n + piece - 1) // piece, 0).to(tl.int32)
    num_pieces = total(pieces)
    if num_pieces > 0:
        several = tl.where(pieces > 1, pieces, 0)
        first = tl.atomic_add(counters, num_pieces) + tl.associative_scan(pieces, 0, tl.standard._sum_combine) - pieces
        slot = tl.associative_scan(several, 0, tl.standard._sum_combine) - several
        num_slots = total(several)
        if num_slots > 0:
            slot += tl.atomic_add(counters + 1, num_slots)
        most = greatest(pieces)
        k = most * 0
        while k < most:
            to = queue + (first + k).to(tl.int64) * ENTRY
            is_piece = k < pieces
            tl.store(to, pieces * 0 + unit, mask=is_piece)
            tl.store(to + 1, b.to(tl.int32), mask=is_piece)
            tl.store(to + 2, pieces * 0 + k, mask=is_piece)
            tl.store(to + 3, slot, mask=is_piece)
            tl.store(to + 4, begin.to(tl.int32), mask=is_piece)
            tl.store(to + 5, (begin + n).to(tl.int32), mask=is_piece)
            k += 1


@jit
def bags_of(tile, offsets, word, count, R: tl.constexpr, UNPOOLED: tl.constexpr):
    """The bags of a tile: their numbers, which there are, where their elements begin, and how many those are.

    UNPOOLED: every element of one feature is a bag of its own; `count` is their number, `offsets` the feature's.
    """
    b = tile.to(tl.int64) * R + tl.arange(0, R)
    live = b < count
    if UNPOOLED:
        begin = tl.load(offsets) + b
        n = live.to(tl.int64)
    else:
        ends = offsets + tl.load(word) * (count + 1) + b
        begin = tl.load(ends, mask=live, other=0)
        n = tl.load(ends + 1, mask=live, other=0) - begin
    return b, live, begin, n


@jit
def column_of(flat, word, count, ALIGN: tl.constexpr):
    """Where a unit's column of a flat output begins, and the stride between its batch rows."""
    at = tl.multiple_of(tl.load(word + 1) * count + tl.load(word + 2), ALIGN)
    return flat + at, tl.multiple_of(tl.load(word + 3), ALIGN)


@jit
def values_of(rows, word, DIM: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Where a unit's values of the first row lie, the number of each WIDE-th [BLOCK // WIDE], and which there are."""
    d = tl.arange(0, BLOCK // WIDE) * WIDE
    own = rows
    is_column = d < DIM
    if BLOCK < DIM:
        first = tl.multiple_of(tl.load(word + 7), BLOCK)
        own = rows + first
        is_column = d < DIM - first
    return own, d, is_column


@jit
def bag_noted(entry, units):
    """The bag of a piece that was noted: its unit's words, its number, where its elements begin and where they end."""
    word = units + tl.load(entry).to(tl.int64) * 8
    b = tl.load(entry + 1).to(tl.int64)
    return word, b, tl.load(entry + 4).to(tl.int64), tl.load(entry + 5).to(tl.int64)


@jit
def pool_bags_of(
    program,
    rows,
    offsets,
    inverse,
    weights,
    out,
    units,
    queue,
    counters,
    count,
    piece,
    FIRST: tl.constexpr,
    UNITS: tl.constexpr,
    DIM: tl.constexpr,
    ROW: tl.constexpr,
    BLOCK: tl.constexpr,
    R: tl.constexpr,
    SHORT: tl.constexpr,
    ALIGN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MAX: tl.constexpr,
    DIVIDED: tl.constexpr,
    UNPOOLED: tl.constexpr,
):
    """The outputs of a tile's bags of up to SHORT elements, zeros for empty ones; the others are noted.

    program: a tile of the first unit, then of the next.   rows: float32 [U, ROW].   offsets: int64 [F, B + 1].
    inverse: [N].   weights: float32 [N].   count: B.   FIRST, UNITS: the group's units.
    """
    unit = FIRST + program % UNITS
    word = units + unit * 8
    pooling = tl.load(word + 4)
    weighted = tl.load(word + 5)
    to, stride = column_of(out, word, count, ALIGN)
    b, live, begin, n = bags_of(program // UNITS, offsets, word, count, R, UNPOOLED)
    source, d, is_column = values_of(rows, word, DIM, BLOCK, 1)
    is_short = live & (n <= SHORT)
    length = tl.where(is_short, n, 0).to(tl.int32)
    longest = greatest(length)
    sums = nothing(R, BLOCK)
    if MAX:
        sums = tl.full(sums.shape, float("-inf"), tl.float32)
    weight = tl.full([R], 0.0, tl.float32)
    u = tl.load(inverse + begin, mask=length > 0, other=0).to(tl.int64)
    e = longest * 0
    while e < longest:
        more = e < length
        is_value = more[:, None]
        if BLOCK != DIM:
            is_value = is_value & is_column[None, :]
        x = tl.load(source + u[:, None] * ROW + d[None, :], mask=is_value, other=0.0)
        if e + 1 < longest:
            u = tl.load(inverse + begin + e + 1, mask=e + 1 < length, other=0).to(tl.int64)
        if WEIGHTED:
            w = tl.load(weights + begin + e, mask=more & (weighted != 0), other=1.0)
            x = x * w[:, None]
            if DIVIDED:
                weight += tl.where(more, tl.where(pooling == 2, w * w, w), 0.0)
        sums = tl.where(more[:, None], joined(sums, x, MAX), sums)
        e += 1
    if DIVIDED:
        if not WEIGHTED:
            weight = length.to(tl.float32)
        sums = divided(sums, divisor(weight, pooling)[:, None])
    sums = tl.where((length > 0)[:, None], sums, 0.0)
    is_written = is_short[:, None]
    if BLOCK != DIM:
        is_written = is_written & is_column[None, :]
    tl.store(to + b[:, None] * stride + d[None, :], sums, mask=is_written)
    if not UNPOOLED:
        note_long(queue, counters, unit, b, begin, n, live & (n > SHORT), piece, R)


@jit
def pool_piece_of(
    entry,
    rows,
    inverse,
    weights,
    out,
    units,
    counters,
    partials,
    count,
    piece,
    DIM: tl.constexpr,
    ROW: tl.constexpr,
    BLOCK: tl.constexpr,
    E: tl.constexpr,
    WIDE: tl.constexpr,
    ALIGN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MAX: tl.constexpr,
    DIVIDED: tl.constexpr,
):
    """A piece of a bag that was noted; who comes last writes the bag's output.

    entry: what was noted.   counters: int32, how many pieces, how many slots of partial sums, then of each bag how many
    pieces have come.   partials: float32 [slots, WIDE].
    """
    word, b, begin, finish = bag_noted(entry, units)
    k = tl.load(entry + 2)
    slot = tl.load(entry + 3).to(tl.int64)
    pooling = tl.load(word + 4)
    weighted = tl.load(word + 5)
    source, d, is_column = values_of(rows, word, DIM, BLOCK, 1)
    e = begin + k.to(tl.int64) * piece
    last = tl.minimum(e + piece, finish)
    sums = nothing(E, BLOCK)
    if MAX:
        sums = tl.full(sums.shape, float("-inf"), tl.float32)
    at = e + tl.arange(0, E)
    u = tl.load(inverse + at, mask=at < last, other=0).to(tl.int64)
    while e < last:
        at = e + tl.arange(0, E)
        more = at < last
        is_value = more[:, None]
        if BLOCK != DIM:
            is_value = is_value & is_column[None, :]
        x = tl.load(source + u[:, None] * ROW + d[None, :], mask=is_value, other=0.0)
        if WEIGHTED:
            w = tl.load(weights + at, mask=more & (weighted != 0), other=1.0)
            x = x * w[:, None]
        u = tl.load(inverse + at + E, mask=at + E < last, other=0).to(tl.int64)
        sums = tl.where(more[:, None], joined(sums, x, MAX), sums)
        e += E
    if MAX:
        pooled = greatest_row(sums)
    else:
        pooled = sum_of_rows(sums)
    d = d[None, :]
    pieces = (finish - begin + piece - 1) // piece
    is_last = pieces == 1
    if pieces > 1:
        theirs = partials + slot * WIDE + tl.arange(0, BLOCK)[None, :]
        tl.store(theirs + k.to(tl.int64) * WIDE, pooled)
        tl.debug_barrier()
        arrived = tl.atomic_add(counters + 2 + slot, 1)
        is_last = arrived == pieces - 1
        if is_last:
            tl.debug_barrier()
            pooled = tl.load(theirs, cache_modifier=".cg")
            j = pieces * 0 + 1
            while j < pieces:
                other = tl.load(theirs + j * WIDE, cache_modifier=".cg")
                pooled = joined(pooled, other, MAX)
                j += 1
    if is_last:
        if DIVIDED:
            by = divisor_of(weights, begin, finish, finish - begin, pooling, weighted, WEIGHTED, 512)
            pooled = divided(pooled, by)
        to, stride = column_of(out, word, count, ALIGN)
        tl.store(to + b * stride + d, pooled, mask=is_column[None, :])
