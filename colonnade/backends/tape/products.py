"""The product of a few rows with a matrix, and its bias and activation.

Legend: K inner dim, N outputs. The matrix lies in panels of sixteen columns, each `[K, 16]`, the last one `[K, 8]`
where eight are enough; the bias is filled up to whole lanes; rows of operand and result end where they end.
Four rows by sixteen outputs keep eight sums, two parts of the matrix and a value in registers. A block of a panel stays
in the first cache while all rows pass by it, and the same block of the rows in the second while all panels do.
Facts: each result is one sum over k in order, whatever the rows are and whoever computes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.backends.lanes import (
    LANES,
    add_lanes,
    lane_of,
    lanes,
    load_lanes,
    multiply_add,
    positive_lanes,
    store_lanes,
)
from colonnade.backends.memory import kernel, load_f32, store_f32

HALF = 4 * LANES
WIDE = 2 * HALF
PANEL = 2 * LANES
ROWS = 4
BLOCK = 256
"""Of the inner dim: a panel's are 16 KiB."""
ZERO = np.float32(0)


@kernel
def _put(out: int, value: Any, bias: int, part: int, relu: bool, n: int) -> None:
    """Store the results of a part of eight outputs, of which there are n in all."""
    if bias != 0:
        value = add_lanes(value, load_lanes(bias + HALF * part))
    if relu:
        value = positive_lanes(value)
    first = LANES * part
    if n - first >= LANES:
        store_lanes(out + 4 * first, value)
    else:
        for k in range(n - first):
            store_f32(out + 4 * (first + k), lane_of(value, k))


@kernel
def _four_by_two(
    out: int, so: int, a: int, sa: int, m: int, bias: int, relu: bool, inner: int, n: int, first: bool
) -> None:
    """first: whether sums begin here, and do not go on with what lies in `out`."""
    p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = lanes(ZERO)
    if not first:
        p0, q0 = load_lanes(out), load_lanes(out + HALF)
        p1, q1 = load_lanes(out + so), load_lanes(out + so + HALF)
        p2, q2 = load_lanes(out + 2 * so), load_lanes(out + 2 * so + HALF)
        p3, q3 = load_lanes(out + 3 * so), load_lanes(out + 3 * so + HALF)
    for k in range(inner):
        x, y = load_lanes(m + k * WIDE), load_lanes(m + k * WIDE + HALF)
        at = a + 4 * k
        v = lanes(load_f32(at))
        p0, q0 = multiply_add(v, x, p0), multiply_add(v, y, q0)
        v = lanes(load_f32(at + sa))
        p1, q1 = multiply_add(v, x, p1), multiply_add(v, y, q1)
        v = lanes(load_f32(at + 2 * sa))
        p2, q2 = multiply_add(v, x, p2), multiply_add(v, y, q2)
        v = lanes(load_f32(at + 3 * sa))
        p3, q3 = multiply_add(v, x, p3), multiply_add(v, y, q3)
    _put(out, p0, bias, 0, relu, n)
    _put(out, q0, bias, 1, relu, n)
    _put(out + so, p1, bias, 0, relu, n)
    _put(out + so, q1, bias, 1, relu, n)
    _put(out + 2 * so, p2, bias, 0, relu, n)
    _put(out + 2 * so, q2, bias, 1, relu, n)
    _put(out + 3 * so, p3, bias, 0, relu, n)
    _put(out + 3 * so, q3, bias, 1, relu, n)


@kernel
def _four_by_one(out: int, so: int, a: int, sa: int, m: int, bias: int, relu: bool, inner: int, n: int) -> None:
    p0 = p1 = p2 = p3 = lanes(ZERO)
    for k in range(inner):
        x = load_lanes(m + k * HALF)
        at = a + 4 * k
        p0 = multiply_add(lanes(load_f32(at)), x, p0)
        p1 = multiply_add(lanes(load_f32(at + sa)), x, p1)
        p2 = multiply_add(lanes(load_f32(at + 2 * sa)), x, p2)
        p3 = multiply_add(lanes(load_f32(at + 3 * sa)), x, p3)
    _put(out, p0, bias, 0, relu, n)
    _put(out + so, p1, bias, 0, relu, n)
    _put(out + 2 * so, p2, bias, 0, relu, n)
    _put(out + 3 * so, p3, bias, 0, relu, n)


@kernel
def _one_by_four(out: int, a: int, m: int, bias: int, relu: bool, inner: int) -> None:
    """Two panels at once: a sum waits for its last product."""
    p0 = p1 = p2 = p3 = lanes(ZERO)
    second = m + inner * WIDE
    for k in range(inner):
        v = lanes(load_f32(a + 4 * k))
        p0 = multiply_add(v, load_lanes(m + k * WIDE), p0)
        p1 = multiply_add(v, load_lanes(m + k * WIDE + HALF), p1)
        p2 = multiply_add(v, load_lanes(second + k * WIDE), p2)
        p3 = multiply_add(v, load_lanes(second + k * WIDE + HALF), p3)
    _put(out, p0, bias, 0, relu, 2 * PANEL)
    _put(out, p1, bias, 1, relu, 2 * PANEL)
    _put(out, p2, bias, 2, relu, 2 * PANEL)
    _put(out, p3, bias, 3, relu, 2 * PANEL)


@kernel
def _one_by_two(out: int, a: int, m: int, bias: int, relu: bool, inner: int, n: int) -> None:
    p = q = lanes(ZERO)
    for k in range(inner):
        v = lanes(load_f32(a + 4 * k))
        p = multiply_add(v, load_lanes(m + k * WIDE), p)
        q = multiply_add(v, load_lanes(m + k * WIDE + HALF), q)
    _put(out, p, bias, 0, relu, n)
    _put(out, q, bias, 1, relu, n)


@kernel
def _one_by_one(out: int, a: int, m: int, bias: int, relu: bool, inner: int, n: int) -> None:
    total = lanes(ZERO)
    for k in range(inner):
        total = multiply_add(lanes(load_f32(a + 4 * k)), load_lanes(m + k * HALF), total)
    _put(out, total, bias, 0, relu, n)


@kernel
def _panels(
    out: int, so: int, a: int, sa: int, matrix: int, bias: int, relu: bool, rows: int, inner: int, n: int
) -> None:
    """Four rows at a time. Facts: rows is a multiple of four."""
    k, j = 0, n - n % PANEL
    while k < inner:
        count = min(BLOCK, inner - k)
        last = k + count == inner
        for first in range(0, j, PANEL):
            panel = matrix + 4 * first * inner + WIDE * k
            added, cut = bias + 4 * first if last and bias else 0, relu and last
            for r in range(0, rows, ROWS):
                x, y = a + r * sa + 4 * k, out + r * so + 4 * first
                _four_by_two(y, so, x, sa, panel, added, cut, count, PANEL, k == 0)
        k += count
    if j < n:
        panel, added = matrix + 4 * j * inner, bias + 4 * j if bias else 0
        for r in range(0, rows, ROWS):
            x, y = a + r * sa, out + r * so + 4 * j
            if n - j > LANES:
                _four_by_two(y, so, x, sa, panel, added, relu, inner, n - j, True)
            else:
                _four_by_one(y, so, x, sa, panel, added, relu, inner, n - j)


@kernel
def _row(out: int, a: int, matrix: int, bias: int, relu: bool, inner: int, n: int) -> None:
    j = 0
    while n - j >= 2 * PANEL:
        _one_by_four(out + 4 * j, a, matrix + 4 * j * inner, bias + 4 * j if bias else 0, relu, inner)
        j += 2 * PANEL
    while j < n:
        panel, added = matrix + 4 * j * inner, bias + 4 * j if bias else 0
        if n - j > LANES:
            _one_by_two(out + 4 * j, a, panel, added, relu, inner, n - j)
        else:
            _one_by_one(out + 4 * j, a, panel, added, relu, inner, n - j)
        j += PANEL


@kernel
def product(
    out: int, so: int, a: int, sa: int, matrix: int, bias: int, relu: bool, rows: int, inner: int, n: int
) -> None:
    """`out = relu(a @ matrix + bias)`; no bias where its address is 0. Facts: `out` overlaps no operand."""
    fours = rows - rows % ROWS
    if fours > 0:
        _panels(out, so, a, sa, matrix, bias, relu, fours, inner, n)
    for r in range(fours, rows):
        _row(out + r * so, a + r * sa, matrix, bias, relu, inner, n)
