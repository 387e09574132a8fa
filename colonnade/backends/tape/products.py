"""The product of a few rows with a small matrix, and its bias and activation.

Legend: K inner dim, N outputs. The matrix is `[K, N rounded up to lanes]`, as is the bias; rows end where they end.
Four rows by sixteen outputs keep eight sums, two parts of the matrix and a value in registers.
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
ROWS = 4
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
    out: int, so: int, a: int, sa: int, m: int, pitch: int, bias: int, relu: bool, inner: int, n: int
) -> None:
    p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = lanes(ZERO)
    for k in range(inner):
        x, y = load_lanes(m + k * pitch), load_lanes(m + k * pitch + HALF)
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
def _four_by_one(
    out: int, so: int, a: int, sa: int, m: int, pitch: int, bias: int, relu: bool, inner: int, n: int
) -> None:
    p0 = p1 = p2 = p3 = lanes(ZERO)
    for k in range(inner):
        x = load_lanes(m + k * pitch)
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
def _one_by_four(out: int, a: int, m: int, pitch: int, bias: int, relu: bool, inner: int, n: int) -> None:
    p0 = p1 = p2 = p3 = lanes(ZERO)
    for k in range(inner):
        v, at = lanes(load_f32(a + 4 * k)), m + k * pitch
        p0 = multiply_add(v, load_lanes(at), p0)
        p1 = multiply_add(v, load_lanes(at + HALF), p1)
        p2 = multiply_add(v, load_lanes(at + 2 * HALF), p2)
        p3 = multiply_add(v, load_lanes(at + 3 * HALF), p3)
    _put(out, p0, bias, 0, relu, n)
    _put(out, p1, bias, 1, relu, n)
    _put(out, p2, bias, 2, relu, n)
    _put(out, p3, bias, 3, relu, n)


@kernel
def _one_by_one(out: int, a: int, m: int, pitch: int, bias: int, relu: bool, inner: int, n: int) -> None:
    total = lanes(ZERO)
    for k in range(inner):
        total = multiply_add(lanes(load_f32(a + 4 * k)), load_lanes(m + k * pitch), total)
    _put(out, total, bias, 0, relu, n)


@kernel
def product(
    out: int, so: int, a: int, sa: int, matrix: int, bias: int, relu: bool, rows: int, inner: int, n: int
) -> None:
    """`out = relu(a @ matrix + bias)`; no bias where its address is 0."""
    pitch = (n + LANES - 1) // LANES * HALF
    r = 0
    while r + ROWS <= rows:
        x, y, j = a + r * sa, out + r * so, 0
        while n - j > LANES:
            _four_by_two(y + 4 * j, so, x, sa, matrix + 4 * j, pitch, bias + 4 * j if bias else 0, relu, inner, n - j)
            j += 2 * LANES
        if j < n:
            _four_by_one(y + 4 * j, so, x, sa, matrix + 4 * j, pitch, bias + 4 * j if bias else 0, relu, inner, n - j)
        r += ROWS
    while r < rows:
        x, y, j = a + r * sa, out + r * so, 0
        while n - j > 3 * LANES:
            _one_by_four(y + 4 * j, x, matrix + 4 * j, pitch, bias + 4 * j if bias else 0, relu, inner, n - j)
            j += 4 * LANES
        while j < n:
            _one_by_one(y + 4 * j, x, matrix + 4 * j, pitch, bias + 4 * j if bias else 0, relu, inner, n - j)
            j += LANES
        r += 1
