"""Rows that are zero in most places, times a matrix: a sum of the matrix's rows where they are not.

Legend: a *list* is, for each row of a tile, where its entries begin, then the entries: the place in the matrix (int32)
and the value (float32) of each element that is not zero. Ranges are triples: where one begins, its elements, and 1
where these are listed, 0 where they are copied.
Facts: a result is one sum over the places in order, as if the zeros were multiplied, too: the matrix is finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from colonnade.backends.lanes import (
    LANES,
    LANES_TYPE,
    VECTOR,
    copy_row,
    lanes,
    load_lanes,
    multiply_add,
    store_lanes,
)
from colonnade.backends.memory import (
    I64,
    intrinsic,
    kernel,
    load_f32,
    load_i32,
    load_i64,
    lowest_bit,
    store_f32,
    store_i32,
    store_i64,
)

ENTRY = 8
RANGE_BYTES = 24
STEP = 4 * LANES
TOGETHER = 8 * LANES
ZERO = np.float32(0)


@intrinsic
def _marks(typing: Any, a: Any) -> Any:
    """A bit for each lane that is not zero; NaN is not."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = ir.Constant(VECTOR, [0.0] * LANES)
        bits = builder.bitcast(builder.fcmp_unordered("!=", args[0], zeros), ir.IntType(LANES))
        return builder.zext(bits, I64)

    return types.int64(LANES_TYPE), generate


@kernel
def _listed(at: int, a: int, count: int, place: int) -> int:
    """Append what is not zero of `count` elements; gives where the list then ends."""
    k = 0
    while k + LANES <= count:
        marks = _marks(load_lanes(a + 4 * k))
        while marks != 0:
            found = k + lowest_bit(marks)
            store_i32(at, np.int32(place + found))
            store_f32(at + 4, load_f32(a + 4 * found))
            at += ENTRY
            marks &= marks - 1
        k += LANES
    while k < count:
        value = load_f32(a + 4 * k)
        if value != ZERO:
            store_i32(at, np.int32(place + k))
            store_f32(at + 4, value)
            at += ENTRY
        k += 1
    return at


@kernel
def sift(out: int, so: int, a: int, sa: int, ranges: int, count: int, lists: int, rows: int) -> None:
    """Copy the ranges of each row that are dense, one behind another, and list what is not zero of the others."""
    at = lists + 8 * (rows + 1)
    for r in range(rows):
        store_i64(lists + 8 * r, at)
        x, z, place = a + r * sa, out + r * so, 0
        for k in range(count):
            part = ranges + RANGE_BYTES * k
            begin, size = x + 4 * load_i64(part), load_i64(part + 8)
            if load_i64(part + 16) != 0:
                at = _listed(at, begin, size, place)
                place += size
            else:
                copy_row(begin, z, size)
                z += 4 * size
    store_i64(lists + 8 * rows, at)


@kernel
def _eight(out: int, begin: int, end: int, m: int, row_bytes: int) -> None:
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = lanes(ZERO)
    for at in range(begin, end, ENTRY):
        v, x = lanes(load_f32(at + 4)), m + load_i32(at) * row_bytes
        p0 = multiply_add(v, load_lanes(x), p0)
        p1 = multiply_add(v, load_lanes(x + STEP), p1)
        p2 = multiply_add(v, load_lanes(x + 2 * STEP), p2)
        p3 = multiply_add(v, load_lanes(x + 3 * STEP), p3)
        p4 = multiply_add(v, load_lanes(x + 4 * STEP), p4)
        p5 = multiply_add(v, load_lanes(x + 5 * STEP), p5)
        p6 = multiply_add(v, load_lanes(x + 6 * STEP), p6)
        p7 = multiply_add(v, load_lanes(x + 7 * STEP), p7)
    store_lanes(out, p0)
    store_lanes(out + STEP, p1)
    store_lanes(out + 2 * STEP, p2)
    store_lanes(out + 3 * STEP, p3)
    store_lanes(out + 4 * STEP, p4)
    store_lanes(out + 5 * STEP, p5)
    store_lanes(out + 6 * STEP, p6)
    store_lanes(out + 7 * STEP, p7)


@kernel
def _one(out: int, begin: int, end: int, m: int, row_bytes: int) -> None:
    total = lanes(ZERO)
    for at in range(begin, end, ENTRY):
        total = multiply_add(lanes(load_f32(at + 4)), load_lanes(m + load_i32(at) * row_bytes), total)
    store_lanes(out, total)


@kernel
def gather(out: int, so: int, lists: int, matrix: int, rows: int, n: int) -> None:
    """`out = rows @ matrix`, of listed rows; matrix: `[K, n]`. Facts: n is a multiple of `LANES`."""
    j = 0
    while j < n:
        together = n - j >= TOGETHER
        for r in range(rows):
            begin, end = load_i64(lists + 8 * r), load_i64(lists + 8 * r + 8)
            if together:
                _eight(out + r * so + 4 * j, begin, end, matrix + 4 * j, 4 * n)
            else:
                _one(out + r * so + 4 * j, begin, end, matrix + 4 * j, 4 * n)
        j += TOGETHER if together else LANES
