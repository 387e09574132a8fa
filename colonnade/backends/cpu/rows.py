"""Pooling table rows, in TensorFlow's order of summation.

Legend: `rows` is the address of `n` row addresses, `out` of `dim` float32 values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch, stream_lanes
from colonnade.backends.lanes import LANES, add_lanes, div_lanes, lanes, load_lanes, max_lanes, mul_lanes, store_lanes
from colonnade.backends.memory import kernel, load_f32, load_i64, store_f32

ONE, ZERO = np.float32(1), np.float32(0)
GROUP = 8
LINE = 64
PLAIN, TIMES, OVER = range(3)
"""What is done to a finished sum: nothing, a multiplication, a division."""


@kernel
def prefetch_row(row: int, size: int) -> None:
    """Begin to read the first cache lines of a row."""
    prefetch(row)
    if size > LINE:
        prefetch(row + LINE)
        if size > 2 * LINE:
            prefetch(row + 2 * LINE)


@kernel
def scale_row(row: int, out: int, dim: int, factor: np.float32) -> None:
    """`out = factor * row`."""
    for k in range(dim):
        store_f32(out + 4 * k, load_f32(row + 4 * k) * factor)


@kernel
def stream_row(row: int, out: int, dim: int) -> None:
    """`out = row`, past the caches. Facts: `dim` is a multiple of 8 and `out` of 32."""
    for k in range(0, dim, LANES):
        stream_lanes(out + 4 * k, load_lanes(row + 4 * k))


@kernel
def leading(n: int) -> int:
    """How many rows are summed one by one before groups of eight begin.

    Source: TensorFlow's SparseSegmentReduction (CPU): up to nine rows at once, else n % 8 with 8 for 0 and 9 for 1.
    """
    if n < 10:
        return n
    rest = n % GROUP
    return rest + GROUP if rest < 2 else rest


@kernel
def _scaled(total: np.float32, how: int, factor: np.float32) -> np.float32:
    if how == TIMES:
        return total * factor
    return total / factor if how == OVER else total


@kernel
def scale(out: int, dim: int, how: int, factor: np.float32) -> None:
    """Scale a finished sum."""
    if how != PLAIN:
        for k in range(dim):
            store_f32(out + 4 * k, _scaled(load_f32(out + 4 * k), how, factor))


Block = Callable[[int, int, int], Any]
Number = Callable[[int, int, int], np.float32]
Add = Callable[[int, int, int, int, int, int, int, np.float32], None]


def summing(block: Block, number: Number) -> Add:
    """A kernel that sums rows stored in some form.

    block, number: kernels (row, tail, k) -> values k .. k + 7, or value k, of a row whose values end `tail` bytes on.
    """

    @kernel
    def add(rows: int, n: int, lead: int, tail: int, out: int, dim: int, how: int, factor: np.float32) -> None:
        k = 0
        while k + LANES <= dim:
            total = load_lanes(out + 4 * k) if lead == 0 else block(load_i64(rows), tail, k)
            for i in range(1, lead):
                total = add_lanes(total, block(load_i64(rows + 8 * i), tail, k))
            for i in range(lead, n, GROUP):
                part = block(load_i64(rows + 8 * i), tail, k)
                for j in range(i + 1, i + GROUP):
                    part = add_lanes(part, block(load_i64(rows + 8 * j), tail, k))
                total = add_lanes(total, part)
            if how == TIMES:
                total = mul_lanes(total, lanes(factor))
            elif how == OVER:
                total = div_lanes(total, lanes(factor))
            store_lanes(out + 4 * k, total)
            k += LANES
        while k < dim:
            one = load_f32(out + 4 * k) if lead == 0 else number(load_i64(rows), tail, k)
            for i in range(1, lead):
                one += number(load_i64(rows + 8 * i), tail, k)
            for i in range(lead, n, GROUP):
                few = number(load_i64(rows + 8 * i), tail, k)
                for j in range(i + 1, i + GROUP):
                    few += number(load_i64(rows + 8 * j), tail, k)
                one += few
            store_f32(out + 4 * k, _scaled(one, how, factor))
            k += 1

    return add


@kernel
def _block(row: int, tail: int, k: int) -> Any:
    return load_lanes(row + 4 * k)


@kernel
def _number(row: int, tail: int, k: int) -> np.float32:
    return load_f32(row + 4 * k)


_add_f32 = summing(_block, _number)


@kernel
def add_rows(rows: int, n: int, lead: int, out: int, dim: int, how: int, factor: np.float32) -> None:
    """`out (+)= rows`: first `lead` rows one by one, which start the sum, then sums of eight; then scaled.

    Facts: `lead` 0 goes on with the sum that lies in `out`; n - lead is a multiple of 8.
    """
    _add_f32(rows, n, lead, 0, out, dim, how, factor)


@kernel
def max_rows(rows: int, n: int, fresh: bool, out: int, dim: int) -> None:
    """`out = max(out, rows)`, or `max(rows)` where the result is `fresh`; NaN wins. Facts: n >= 1."""
    k = 0
    while k + LANES <= dim:
        best = load_lanes(load_i64(rows) + 4 * k) if fresh else load_lanes(out + 4 * k)
        for i in range(n):
            best = max_lanes(best, load_lanes(load_i64(rows + 8 * i) + 4 * k))
        store_lanes(out + 4 * k, best)
        k += LANES
    while k < dim:
        top = load_f32(load_i64(rows) + 4 * k) if fresh else load_f32(out + 4 * k)
        for i in range(n):
            x = load_f32(load_i64(rows + 8 * i) + 4 * k)
            top = x if x > top or x != x else top
        store_f32(out + 4 * k, top)
        k += 1


@kernel
def add_weighted(rows: int, weights: int, n: int, fresh: bool, out: int, dim: int) -> None:
    """`out (+)= sum of weight * row`, one by one; the first product starts a `fresh` sum. Facts: n >= 1."""
    begin = 1 if fresh else 0
    k = 0
    while k + LANES <= dim:
        if fresh:
            total = mul_lanes(load_lanes(load_i64(rows) + 4 * k), lanes(load_f32(weights)))
        else:
            total = load_lanes(out + 4 * k)
        for i in range(begin, n):
            row = load_lanes(load_i64(rows + 8 * i) + 4 * k)
            total = add_lanes(total, mul_lanes(row, lanes(load_f32(weights + 4 * i))))
        store_lanes(out + 4 * k, total)
        k += LANES
    while k < dim:
        one = load_f32(load_i64(rows) + 4 * k) * load_f32(weights) if fresh else load_f32(out + 4 * k)
        for i in range(begin, n):
            one += load_f32(load_i64(rows + 8 * i) + 4 * k) * load_f32(weights + 4 * i)
        store_f32(out + 4 * k, one)
        k += 1


@kernel
def add_marked(rows: int, weights: int, n: int, fresh: bool, out: int, dim: int) -> None:
    """`out (+)= sum of weight * value` over the values that are not 0; a `fresh` sum begins at 0."""
    for k in range(dim):
        total = ZERO if fresh else load_f32(out + 4 * k)
        for i in range(n):
            mark = load_f32(load_i64(rows + 8 * i) + 4 * k)
            if mark != ZERO:
                total += mark * load_f32(weights + 4 * i)
        store_f32(out + 4 * k, total)


@kernel
def max_weighted(rows: int, weights: int, n: int, fresh: bool, out: int, dim: int) -> None:
    """`out = max(out, weight * row)`; NaN wins. Facts: n >= 1."""
    for k in range(dim):
        top = load_f32(load_i64(rows) + 4 * k) * load_f32(weights) if fresh else load_f32(out + 4 * k)
        for i in range(n):
            x = load_f32(load_i64(rows + 8 * i) + 4 * k) * load_f32(weights + 4 * i)
            top = x if x > top or x != x else top
        store_f32(out + 4 * k, top)


@kernel
def divide(out: int, dim: int, divisor: np.float32) -> None:
    """`out /= divisor`, or 0 where the divisor is 0."""
    for k in range(dim):
        store_f32(out + 4 * k, load_f32(out + 4 * k) / divisor if divisor != ZERO else ZERO)
