"""Rows of any number of elements: where places lie, and where the ids of features begin.   Legend: N lanes."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.text import greatest


@jit
def running_sum(x):
    """[N]: the sums of x up to and with each lane."""
    # Triton's own are compiled functions, which an interpreted one cannot call; their combination can be named.
    return tl.associative_scan(x, 0, tl.standard._sum_combine)


@jit
def sum_of(x):
    """The sum of [N] integers."""
    return tl.reduce(x, 0, tl.standard._sum_combine)


@jit
def length_of(offsets, row, most, inside):
    """int64 [N]: where rows begin and end, brought into 0 .. most, and their lengths."""
    begin = tl.load(offsets + row, mask=inside, other=0)
    end = tl.load(offsets + row + 1, mask=inside, other=0)
    begin = tl.minimum(tl.maximum(begin, 0), most)
    end = tl.minimum(tl.maximum(end, begin), most)
    return begin, end, end - begin


@jit
def row_of_place(offsets, rows, place, live):
    """int32 [N]: the row in which each place lies, the greatest r < rows with `offsets[r] <= place`."""
    num = rows.to(tl.int32)
    step = num * 0 + 1
    while step * 2 < num:
        step = step * 2
    row = (place * 0).to(tl.int32)
    while step > 0:
        probe = row + step
        inside = live & (probe < num)
        begin = tl.load(offsets + probe, mask=inside, other=0)
        row = tl.where(inside & (begin <= place), probe, row)
        step = step >> 1
    return row


@jit
def last_start(starts, num, row, step, place):
    """int32 [N]: the greatest row that is not above `row + 2 * step - 1` and begins at no later place than `place`."""
    while step > 0:
        probe = tl.minimum(row + step, num - 1)
        row = tl.where(tl.load(starts + probe) <= place, probe, row)
        step = step >> 1
    return row


@jit
def rows_of_tile(starts, rows, begin, ITEMS: tl.constexpr):
    """int32 [ITEMS]: the row in which each place from `begin` on lies; past the last one, the last row.

    starts: int32, where each of the rows, one at least, begins.
    """
    # Every eighth place is sought among all rows, those between among the few from there on.
    num = rows.to(tl.int32)
    step = num * 0 + 1
    while step * 2 < num:
        step = step * 2
    place = begin + tl.arange(0, ITEMS // 8) * 8
    low = last_start(starts, num, place * 0, step, place)
    high = last_start(starts, num, place * 0, step, place + 7)
    most = greatest(high - low)
    step = most * 0 + 1
    while step <= most:
        step = step * 2
    row = tl.reshape(tl.broadcast_to(low[:, None], (ITEMS // 8, 8)), (ITEMS,))
    return last_start(starts, num, row, step >> 1, begin + tl.arange(0, ITEMS))


@jit
def scan_counted(tiles, marks, inner, offsets, size, count, bags, ITEMS: tl.constexpr, BLOCK: tl.constexpr):
    """Where rows begin whose elements come of those of others, `inner` their offsets, of which each tile was counted.

    tiles: how many come of each tile of ITEMS, then how many before it.   marks: of each element, twice how many come
    of those before it in its tile.   Facts: reads past the cache that may hold what was there before.
    """
    num = (count + ITEMS - 1) // ITEMS
    total = (num * 0).to(tl.int64)  # what is told is right where tiles can no longer say what is before them
    at = num * 0
    while at < num:
        k = at + tl.arange(0, BLOCK)
        inside = k < num
        come = tl.load(tiles + k, mask=inside, other=0, cache_modifier=".cg").to(tl.int64)
        tl.store(tiles + k, (total + running_sum(come) - come).to(tl.int32), mask=inside)
        total += sum_of(come)
        at += BLOCK
    tl.store(size, total)
    tl.debug_barrier()
    at = num * 0
    while at <= bags:
        b = at + tl.arange(0, BLOCK)
        inside = b <= bags
        first = tl.load(inner + b, mask=inside, other=0)
        within = inside & (first >= 0) & (first < count)
        before = tl.load(tiles + first // ITEMS, mask=within, other=0, cache_modifier=".cg")
        before += tl.load(marks + first, mask=within, other=0, cache_modifier=".cg") >> 1
        tl.store(offsets + b, tl.where(within, before.to(tl.int64), total), mask=inside)
        at += BLOCK


@jit
def is_bad(offsets, at, num, end, width, SPAN: tl.constexpr, BLOCK: tl.constexpr):
    """Whether offsets do not go from 0 to `end`, or fall within SPAN rows from `at` on, or have another width.

    width: elements of every row; -1: any number.
    """
    stop = tl.minimum(at + SPAN, num)
    wrong = tl.full((BLOCK,), 0, tl.int32)
    while at < stop:
        row = at + tl.arange(0, BLOCK)
        inside = row < stop
        length = tl.load(offsets + row + 1, mask=inside, other=0) - tl.load(offsets + row, mask=inside, other=0)
        wrong = wrong | (length < 0).to(tl.int32)
        if width >= 0:
            wrong = wrong | (inside & (length != width)).to(tl.int32)
        at += BLOCK
    return (greatest(wrong) > 0) | (tl.load(offsets) != 0) | (tl.load(offsets + num) != end)


@jit
def put_begins(table, num, out, begins, BLOCK: tl.constexpr):
    """Stores where the ids of each feature begin, and where the last end.

    table: of each, how many elements it has at most, and the word of `out` that says how many, or -1: as many.
    """
    total = num * 0
    at = num * 0
    while at < num:
        k = at + tl.arange(0, BLOCK)
        inside = k < num
        most = tl.load(table + 2 * k, mask=inside, other=0)
        place = tl.load(table + 2 * k + 1, mask=inside, other=-1)
        is_node = place >= 0
        # Past the cache that may hold what was there before other programs wrote it.
        found = tl.load(out + place, mask=is_node, other=0, cache_modifier=".cg")
        count = tl.where(is_node, tl.minimum(found, most), most)
        sums = running_sum(count)
        tl.store(out + begins + k, total + sums - count, mask=inside)
        total += sum_of(count)
        at += BLOCK
    tl.store(out + begins + num, total)
