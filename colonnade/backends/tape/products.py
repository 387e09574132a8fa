"""The product of a few rows with a matrix, and its bias and activation.

Legend: K inner dim, N outputs. The matrix lies in panels of sixteen columns, each `[K, 16]`, the last one `[K, 8]`
where eight are enough; the bias is filled up to whole lanes; rows of operand and result end where they end.
Six rows by sixteen outputs keep twelve sums, two parts of the matrix and a value in registers. A block of a panel stays
in the first cache while all rows pass by it, and the same block of the rows in the second while all panels do.
Facts: each result is one sum over k in order, whatever the rows are and whoever computes them. Where a product is added
to what lies in the result, the sum begins with that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.backends.lanes import (
    LANES,
    add_lanes,
    has_wide_registers,
    lane_of,
    lanes,
    load_lanes,
    multiply_add,
    positive_lanes,
    store_lanes,
)
from colonnade.backends.memory import kernel, load_f32, store_f32
from colonnade.backends.tape.wide_products import TOGETHER, wide_panels

HALF = 4 * LANES
WIDE = 2 * HALF
PANEL = 2 * LANES
ROWS, FEW = 6, 2
"""Of a group; and from how many on the rest of the rows is one."""
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
def _put_two(out: int, p: Any, q: Any, bias: int, relu: bool, n: int) -> None:
    _put(out, p, bias, 0, relu, n)
    _put(out, q, bias, 1, relu, n)


@kernel
def _six_by_two(
    out: int, so: int, a: int, sa: int, m: int, bias: int, relu: bool, rows: int, inner: int, n: int, first: bool
) -> None:
    """Of fewer rows the last one is computed as often as it takes.

    first: whether sums begin here, and do not go on with what lies in `out`.
    """
    last = rows - 1
    r1, r2, r3, r4 = min(1, last), min(2, last), min(3, last), min(4, last)
    o1, o2, o3, o4, o5 = out + r1 * so, out + r2 * so, out + r3 * so, out + r4 * so, out + last * so
    a1, a2, a3, a4, a5 = a + r1 * sa, a + r2 * sa, a + r3 * sa, a + r4 * sa, a + last * sa
    p0 = p1 = p2 = p3 = p4 = p5 = q0 = q1 = q2 = q3 = q4 = q5 = lanes(ZERO)
    if not first:
        p0, q0 = load_lanes(out), load_lanes(out + HALF)
        p1, q1 = load_lanes(o1), load_lanes(o1 + HALF)
        p2, q2 = load_lanes(o2), load_lanes(o2 + HALF)
        p3, q3 = load_lanes(o3), load_lanes(o3 + HALF)
        p4, q4 = load_lanes(o4), load_lanes(o4 + HALF)
        p5, q5 = load_lanes(o5), load_lanes(o5 + HALF)
    for k in range(inner):
        x, y = load_lanes(m + k * WIDE), load_lanes(m + k * WIDE + HALF)
        v = lanes(load_f32(a + 4 * k))
        p0, q0 = multiply_add(v, x, p0), multiply_add(v, y, q0)
        v = lanes(load_f32(a1 + 4 * k))
        p1, q1 = multiply_add(v, x, p1), multiply_add(v, y, q1)
        v = lanes(load_f32(a2 + 4 * k))
        p2, q2 = multiply_add(v, x, p2), multiply_add(v, y, q2)
        v = lanes(load_f32(a3 + 4 * k))
        p3, q3 = multiply_add(v, x, p3), multiply_add(v, y, q3)
        v = lanes(load_f32(a4 + 4 * k))
        p4, q4 = multiply_add(v, x, p4), multiply_add(v, y, q4)
        v = lanes(load_f32(a5 + 4 * k))
        p5, q5 = multiply_add(v, x, p5), multiply_add(v, y, q5)
    _put_two(out, p0, q0, bias, relu, n)
    _put_two(o1, p1, q1, bias, relu, n)
    _put_two(o2, p2, q2, bias, relu, n)
    _put_two(o3, p3, q3, bias, relu, n)
    _put_two(o4, p4, q4, bias, relu, n)
    _put_two(o5, p5, q5, bias, relu, n)


@kernel
def _six_by_one(
    out: int, so: int, a: int, sa: int, m: int, bias: int, relu: bool, rows: int, inner: int, n: int
) -> None:
    last = rows - 1
    r1, r2, r3, r4 = min(1, last), min(2, last), min(3, last), min(4, last)
    a1, a2, a3, a4, a5 = a + r1 * sa, a + r2 * sa, a + r3 * sa, a + r4 * sa, a + last * sa
    p0 = p1 = p2 = p3 = p4 = p5 = lanes(ZERO)
    for k in range(inner):
        x = load_lanes(m + k * HALF)
        p0 = multiply_add(lanes(load_f32(a + 4 * k)), x, p0)
        p1 = multiply_add(lanes(load_f32(a1 + 4 * k)), x, p1)
        p2 = multiply_add(lanes(load_f32(a2 + 4 * k)), x, p2)
        p3 = multiply_add(lanes(load_f32(a3 + 4 * k)), x, p3)
        p4 = multiply_add(lanes(load_f32(a4 + 4 * k)), x, p4)
        p5 = multiply_add(lanes(load_f32(a5 + 4 * k)), x, p5)
    _put(out, p0, bias, 0, relu, n)
    _put(out + r1 * so, p1, bias, 0, relu, n)
    _put(out + r2 * so, p2, bias, 0, relu, n)
    _put(out + r3 * so, p3, bias, 0, relu, n)
    _put(out + r4 * so, p4, bias, 0, relu, n)
    _put(out + last * so, p5, bias, 0, relu, n)


@kernel
def _one_by_four(out: int, a: int, m: int, bias: int, relu: bool, inner: int, first: bool) -> None:
    """Two panels at once: a sum waits for its last product."""
    p0 = p1 = p2 = p3 = lanes(ZERO)
    if not first:
        p0, p1 = load_lanes(out), load_lanes(out + HALF)
        p2, p3 = load_lanes(out + WIDE), load_lanes(out + WIDE + HALF)
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
def _one_by_two(out: int, a: int, m: int, bias: int, relu: bool, inner: int, n: int, first: bool) -> None:
    p = q = lanes(ZERO)
    if not first:
        p, q = load_lanes(out), load_lanes(out + HALF)
    for k in range(inner):
        v = lanes(load_f32(a + 4 * k))
        p = multiply_add(v, load_lanes(m + k * WIDE), p)
        q = multiply_add(v, load_lanes(m + k * WIDE + HALF), q)
    _put_two(out, p, q, bias, relu, n)


@kernel
def _one_by_one(out: int, a: int, m: int, bias: int, relu: bool, inner: int, n: int) -> None:
    total = lanes(ZERO)
    for k in range(inner):
        total = multiply_add(lanes(load_f32(a + 4 * k)), load_lanes(m + k * HALF), total)
    _put(out, total, bias, 0, relu, n)


@kernel
def _panels(
    out: int,
    so: int,
    a: int,
    sa: int,
    matrix: int,
    bias: int,
    relu: bool,
    rows: int,
    inner: int,
    n: int,
    begins: bool,
) -> None:
    """Six rows at a time."""
    k, j, wide = 0, n - n % PANEL, 0
    if has_wide_registers():
        wide = n - n % TOGETHER
        wide_panels(out, so, a, sa, matrix, bias, relu, rows, inner, wide, begins)
    while k < inner:
        count = min(BLOCK, inner - k)
        last = k + count == inner
        for first in range(wide, j, PANEL):
            panel = matrix + 4 * first * inner + WIDE * k
            added, cut = bias + 4 * first if last and bias else 0, relu and last
            for r in range(0, rows, ROWS):
                x, y = a + r * sa + 4 * k, out + r * so + 4 * first
                _six_by_two(y, so, x, sa, panel, added, cut, min(ROWS, rows - r), count, PANEL, begins and k == 0)
        k += count
    if j < n:
        panel, added = matrix + 4 * j * inner, bias + 4 * j if bias else 0
        for r in range(0, rows, ROWS):
            x, y = a + r * sa, out + r * so + 4 * j
            if n - j > LANES:
                _six_by_two(y, so, x, sa, panel, added, relu, min(ROWS, rows - r), inner, n - j, True)
            else:
                _six_by_one(y, so, x, sa, panel, added, relu, min(ROWS, rows - r), inner, n - j)


@kernel
def _row(out: int, a: int, matrix: int, bias: int, relu: bool, inner: int, n: int, begins: bool) -> None:
    j = 0
    while n - j >= 2 * PANEL:
        _one_by_four(out + 4 * j, a, matrix + 4 * j * inner, bias + 4 * j if bias else 0, relu, inner, begins)
        j += 2 * PANEL
    while j < n:
        panel, added = matrix + 4 * j * inner, bias + 4 * j if bias else 0
        if n - j > LANES:
            _one_by_two(out + 4 * j, a, panel, added, relu, inner, n - j, begins)
        else:
            _one_by_one(out + 4 * j, a, panel, added, relu, inner, n - j)
        j += PANEL


@kernel
def product(
    out: int,
    so: int,
    a: int,
    sa: int,
    matrix: int,
    bias: int,
    relu: bool,
    rows: int,
    inner: int,
    n: int,
    begins: bool,
) -> None:
    """`out = relu(a @ matrix + bias)`; no bias where its address is 0.

    begins: whether `out` is no term of the sum; where it is, n is a multiple of `PANEL`. Facts: `out` overlaps no
    operand.
    """
    few = rows % ROWS
    together = rows - few if few < FEW else rows
    if together > 0:
        _panels(out, so, a, sa, matrix, bias, relu, together, inner, n, begins)
    for r in range(together, rows):
        _row(out + r * so, a + r * sa, matrix, bias, relu, inner, n, begins)
