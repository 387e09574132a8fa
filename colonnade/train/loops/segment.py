"""Pooling of looked-up rows into the outputs, and the way back, where an id's gradients are added before they leave.

The forward pass adds in TensorFlow's order, as the cpu backend does: the same bits. Both passes have one writer for
each value, in a fixed order: the same bits each time, for any number of parts.

Legend: `features` is the address of F features of FEATURE_BYTES; B batch rows; N elements; n elements of one batch row;
U rows; D embedding_dim.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch, scratch
from colonnade.backends.cpu.rows import (
    OVER,
    PLAIN,
    TIMES,
    add_rows,
    add_weighted,
    copy_row,
    divide,
    leading,
    max_rows,
    max_weighted,
)
from colonnade.backends.lanes import LANES, add_lanes, div_lanes, lanes, load_lanes, mul_lanes, store_lanes
from colonnade.backends.memory import (
    inlined,
    kernel,
    load_f32,
    load_i32,
    load_i64,
    load_u8,
    store_f32,
    store_i64,
    store_u8,
)
from colonnade.train.loops.entry import entry

# A feature.
ROWS = 0  # address of the looked-up rows, float32 [U, D]
DIM = 8
OFFSETS = 16  # int64 [B + 1]
INVERSE = 24  # int32 [N], the row of each element
WEIGHTS = 32  # float32 [N], 0: none
POOLING = 40
OUT = 48  # where batch row 0 begins; of NONE, element 0 of the feature
STRIDE = 56  # bytes between batch rows
GRAD_OUT = 64  # as OUT
GRADS = 72  # float32 [U, D], added to
GRAD_WEIGHTS = 80  # float32 [N], added to; 0: not wanted
FEATURE_BYTES = 96

SUM, MEAN, SQRTN, MAX, NONE = range(5)
POOLINGS = {"sum": SUM, "mean": MEAN, "sqrtn": SQRTN, "max": MAX, "none": NONE}
ZERO, ONE = np.float32(0), np.float32(1)
SPREAD, LOW = 0x9E3779B1, 0xFFFFFFFF
CHUNK = 256
"""Rows whose addresses are written down at a time; a multiple of 8."""
AHEAD = 16
LINE = 64
NEIGHBOURS, TILE = 16, 32
"""Features and batch rows that are worked on together: what they read and write stays in the caches."""

_addresses = scratch(8 * CHUNK)


@inlined
def _zero(out: int, dim: int) -> None:
    for k in range(dim):
        store_f32(out + 4 * k, ZERO)


@inlined
def _ask(base: int, size: int, inverse: int, begin: int, end: int) -> None:
    """Begin to read the rows of some elements."""
    for i in range(begin, end):
        row = base + size * load_i32(inverse + 4 * i)
        prefetch(row)
        if size > LINE:
            prefetch(row + LINE)


@kernel
def _locate(feature: int, start: int, n: int, limit: int, addresses: int) -> None:
    """The addresses of the rows of n elements; those of later elements, up to `limit`, are asked for."""
    rows, inverse, size = load_i64(feature + ROWS), load_i64(feature + INVERSE), 4 * load_i64(feature + DIM)
    _ask(rows, size, inverse, min(start + AHEAD, limit), min(start + n + AHEAD, limit))
    for i in range(n):
        store_i64(addresses + 8 * i, rows + size * load_i32(inverse + 4 * (start + i)))


@kernel
def _weight_sum(weights: int, n: int, squared: bool) -> np.float32:
    total = ZERO
    for i in range(n):
        x = load_f32(weights + 4 * i)
        total += x * x if squared else x
    return total


@kernel
def _divisor(pooling: int, weights: int, n: int) -> np.float32:
    """What the sum over a batch row is divided by. weights: address of its first, 0: none."""
    if pooling == MEAN:
        return np.float32(n) if weights == 0 else _weight_sum(weights, n, False)
    if pooling == SQRTN:
        return np.float32(np.sqrt(np.float32(n) if weights == 0 else _weight_sum(weights, n, True)))
    return ONE


@inlined
def _scaled(total: Any, how: int, factor: np.float32) -> Any:
    if how == TIMES:
        return mul_lanes(total, lanes(factor))
    return div_lanes(total, lanes(factor)) if how == OVER else total


@inlined
def _sum_few(rows: int, inverse: int, n: int, out: int, dim: int, how: int, factor: np.float32) -> None:
    """The sum of up to ten rows, one after the other. inverse: address of the first element's."""
    size, k = 4 * dim, 0
    first = rows + size * load_i32(inverse)
    while k + 2 * LANES <= dim:
        a, b = load_lanes(first + 4 * k), load_lanes(first + 4 * (k + LANES))
        for i in range(1, n):
            row = rows + size * load_i32(inverse + 4 * i) + 4 * k
            a, b = add_lanes(a, load_lanes(row)), add_lanes(b, load_lanes(row + 4 * LANES))
        store_lanes(out + 4 * k, _scaled(a, how, factor))
        store_lanes(out + 4 * (k + LANES), _scaled(b, how, factor))
        k += 2 * LANES
    while k + LANES <= dim:
        a = load_lanes(first + 4 * k)
        for i in range(1, n):
            a = add_lanes(a, load_lanes(rows + size * load_i32(inverse + 4 * i) + 4 * k))
        store_lanes(out + 4 * k, _scaled(a, how, factor))
        k += LANES
    while k < dim:
        one = load_f32(first + 4 * k)
        for i in range(1, n):
            one += load_f32(rows + size * load_i32(inverse + 4 * i) + 4 * k)
        if how == TIMES:
            one *= factor
        elif how == OVER:
            one /= factor
        store_f32(out + 4 * k, one)
        k += 1


@kernel
def _pool_plain(feature: int, start: int, n: int, limit: int, out: int, addresses: int) -> None:
    pooling, dim, done = load_i64(feature + POOLING), load_i64(feature + DIM), 0
    lead = leading(n)
    if lead == n and pooling != MAX:
        rows, inverse = load_i64(feature + ROWS), load_i64(feature + INVERSE)
        _ask(rows, 4 * dim, inverse, min(start + AHEAD, limit), min(start + n + AHEAD, limit))
        how, factor = _finish(pooling, n)
        _sum_few(rows, inverse + 4 * start, n, out, dim, how, factor)
        return
    while done < n:
        # Behind the first `lead` rows, whole groups of eight.
        size = min(n - done, CHUNK) if done > 0 else lead + (min(n, CHUNK) - lead) // 8 * 8
        _locate(feature, start + done, size, limit, addresses)
        if pooling == MAX:
            max_rows(addresses, size, done == 0, out, dim)
        else:
            how, factor = _finish(pooling, n) if done + size == n else (PLAIN, ONE)
            add_rows(addresses, size, lead if done == 0 else 0, out, dim, how, factor)
        done += size


@inlined
def _finish(pooling: int, n: int) -> tuple[int, np.float32]:
    """What is done to the sum of n rows without weights, and by which number."""
    if pooling == SUM or n == 1:
        return PLAIN, ONE
    divisor = _divisor(pooling, 0, n)
    return (TIMES, np.float32(ONE / divisor)) if n < 10 else (OVER, divisor)


@kernel
def _pool_weighted(feature: int, start: int, n: int, limit: int, out: int, addresses: int) -> None:
    pooling, dim, done = load_i64(feature + POOLING), load_i64(feature + DIM), 0
    weights = load_i64(feature + WEIGHTS) + 4 * start
    while done < n:
        size = min(n - done, CHUNK)
        _locate(feature, start + done, size, limit, addresses)
        if pooling == MAX:
            max_weighted(addresses, weights + 4 * done, size, done == 0, out, dim)
        else:
            add_weighted(addresses, weights + 4 * done, size, done == 0, out, dim)
        done += size
    if pooling in (MEAN, SQRTN):
        divide(out, dim, _divisor(pooling, weights, n))


@kernel
def _copy(feature: int, begin: int, end: int) -> None:
    """Of a feature that is not pooled: the rows of elements of batch rows `begin` to `end`, times their weights."""
    offsets, inverse = load_i64(feature + OFFSETS), load_i64(feature + INVERSE)
    rows, dim, weights = load_i64(feature + ROWS), load_i64(feature + DIM), load_i64(feature + WEIGHTS)
    first, last = load_i64(offsets), load_i64(offsets + 8 * end)
    for i in range(load_i64(offsets + 8 * begin), last):
        _ask(rows, 4 * dim, inverse, min(i + AHEAD, last), min(i + AHEAD + 1, last))
        row = rows + 4 * dim * load_i32(inverse + 4 * i)
        out = load_i64(feature + OUT) + load_i64(feature + STRIDE) * (i - first)
        if weights == 0:
            copy_row(row, out, dim)
        else:
            for k in range(dim):
                store_f32(out + 4 * k, load_f32(row + 4 * k) * load_f32(weights + 4 * i))


@inlined
def _copy_row(row: int, out: int, dim: int) -> None:
    k = 0
    while k + LANES <= dim:
        store_lanes(out + 4 * k, load_lanes(row + 4 * k))
        k += LANES
    while k < dim:
        store_f32(out + 4 * k, load_f32(row + 4 * k))
        k += 1


@kernel
def _pool(feature: int, begin: int, end: int, batch: int, addresses: int) -> None:
    """The outputs of batch rows `begin` to `end`."""
    if load_i64(feature + POOLING) == NONE:
        _copy(feature, begin, end)
        return
    offsets, dim, weights = load_i64(feature + OFFSETS), load_i64(feature + DIM), load_i64(feature + WEIGHTS)
    limit, start = load_i64(offsets + 8 * batch), load_i64(offsets + 8 * begin)
    stride, rows, inverse = load_i64(feature + STRIDE), load_i64(feature + ROWS), load_i64(feature + INVERSE)
    out = load_i64(feature + OUT) + stride * begin
    for b in range(begin, end):
        stop = load_i64(offsets + 8 * b + 8)
        n = stop - start
        if n == 0:
            _zero(out, dim)
        elif n == 1 and weights == 0:
            _ask(rows, 4 * dim, inverse, min(start + AHEAD, limit), min(start + AHEAD + 1, limit))
            _copy_row(rows + 4 * dim * load_i32(inverse + 4 * start), out, dim)
        elif weights == 0:
            _pool_plain(feature, start, n, limit, out, addresses)
        else:
            _pool_weighted(feature, start, n, limit, out, addresses)
        start = stop
        out += stride


@entry
def pool(features: int, begin: int, end: int, batch: int) -> int:
    """Write the outputs of features `begin` to `end`; zeros for a batch row without elements.

    Facts: neighbouring features write to neighbouring places, so that a few features are at work on a few batch rows.
    """
    addresses = _addresses()
    for first in range(begin, end, NEIGHBOURS):
        for row in range(0, batch, TILE):
            for f in range(first, min(first + NEIGHBOURS, end)):
                _pool(features + FEATURE_BYTES * f, row, min(row + TILE, batch), batch, addresses)
    return 0


# --- backward ---------------------------------------------------------------------------------------------------------
@inlined
def _add_scaled(to: int, source: int, dim: int, factor: np.float32) -> None:
    k, many = 0, lanes(factor)
    while k + LANES <= dim:
        store_lanes(to + 4 * k, add_lanes(load_lanes(to + 4 * k), mul_lanes(load_lanes(source + 4 * k), many)))
        k += LANES
    while k < dim:
        store_f32(to + 4 * k, load_f32(to + 4 * k) + load_f32(source + 4 * k) * factor)
        k += 1


@kernel
def _product(a: int, b: int, dim: int) -> float:
    total = 0.0
    for k in range(dim):
        total += float(load_f32(a + 4 * k)) * float(load_f32(b + 4 * k))
    return total


@kernel
def _reciprocal(divisor: np.float32) -> np.float32:
    return ZERO if divisor == ZERO else ONE / divisor


@inlined
def _mine(u: int, part: int, parts: int) -> bool:
    """Whether a row is of this part. Facts: neighbouring rows are of other parts, as are the most frequent."""
    return parts == 1 or (((u * SPREAD) & LOW) * parts) >> 32 == part


@inlined
def _add(to: int, source: int, dim: int) -> None:
    k = 0
    while k + LANES <= dim:
        store_lanes(to + 4 * k, add_lanes(load_lanes(to + 4 * k), load_lanes(source + 4 * k)))
        k += LANES
    while k < dim:
        store_f32(to + 4 * k, load_f32(to + 4 * k) + load_f32(source + 4 * k))
        k += 1


@kernel
def _back_sum(feature: int, start: int, n: int, limit: int, grad: int, part: int, parts: int) -> None:
    """The gradients of rows of one batch row, pooled by sum, mean or sqrtn."""
    dim, inverse, grads = load_i64(feature + DIM), load_i64(feature + INVERSE), load_i64(feature + GRADS)
    weights, pooling = load_i64(feature + WEIGHTS), load_i64(feature + POOLING)
    scale = ONE
    if pooling != SUM and (weights != 0 or n > 1):
        scale = _reciprocal(_divisor(pooling, weights + 4 * start if weights != 0 else 0, n))
    _ask(grads, 4 * dim, inverse, min(start + AHEAD, limit), min(start + n + AHEAD, limit))
    for i in range(start, start + n):
        u = load_i32(inverse + 4 * i)
        if not _mine(u, part, parts):
            continue
        if weights == 0 and scale == ONE:
            _add(grads + 4 * dim * u, grad, dim)
        else:
            factor = scale if weights == 0 else load_f32(weights + 4 * i) * scale
            _add_scaled(grads + 4 * dim * u, grad, dim, factor)


@kernel
def _back_max(feature: int, start: int, n: int, out: int, grad: int, part: int, parts: int, taken: int) -> None:
    """The gradient of each greatest value goes to its first element."""
    dim, inverse, grads = load_i64(feature + DIM), load_i64(feature + INVERSE), load_i64(feature + GRADS)
    rows, weights, wanted = load_i64(feature + ROWS), load_i64(feature + WEIGHTS), load_i64(feature + GRAD_WEIGHTS)
    for k in range(dim):
        store_u8(taken + k, np.uint8(0))
    for i in range(start, start + n):
        u = load_i32(inverse + 4 * i)
        factor = ONE if weights == 0 else load_f32(weights + 4 * i)
        of_weight = 0.0
        for k in range(dim):
            value, most = load_f32(rows + 4 * (dim * u + k)), load_f32(out + 4 * k)
            product = value if weights == 0 else value * factor
            if load_u8(taken + k) == 0 and (product == most or (product != product and most != most)):
                store_u8(taken + k, np.uint8(1))
                g = load_f32(grad + 4 * k)
                of_weight += float(g) * float(value)
                if _mine(u, part, parts):
                    to = grads + 4 * (dim * u + k)
                    store_f32(to, load_f32(to) + g * factor)
        if wanted != 0 and part == 0:
            store_f32(wanted + 4 * i, load_f32(wanted + 4 * i) + np.float32(of_weight))


@kernel
def _back_weights(feature: int, start: int, n: int, out: int, grad: int) -> None:
    """The gradients of weights of one batch row, pooled by sum, mean or sqrtn."""
    dim, inverse, rows = load_i64(feature + DIM), load_i64(feature + INVERSE), load_i64(feature + ROWS)
    weights, wanted = load_i64(feature + WEIGHTS), load_i64(feature + GRAD_WEIGHTS)
    pooling = load_i64(feature + POOLING)
    scale = _reciprocal(_divisor(pooling, weights + 4 * start, n))
    along = 0.0 if pooling == SUM else _product(grad, out, dim)
    for i in range(start, start + n):
        u, x = load_i32(inverse + 4 * i), load_f32(weights + 4 * i)
        own = _product(grad, rows + 4 * dim * u, dim)
        less = along * float(x) * float(scale) if pooling == SQRTN else along
        added = np.float32((own - less) * float(scale))
        store_f32(wanted + 4 * i, load_f32(wanted + 4 * i) + added)


@kernel
def _back_copy(feature: int, begin: int, end: int, part: int, parts: int) -> None:
    offsets, inverse = load_i64(feature + OFFSETS), load_i64(feature + INVERSE)
    dim, weights, wanted = load_i64(feature + DIM), load_i64(feature + WEIGHTS), load_i64(feature + GRAD_WEIGHTS)
    first, last, grads = load_i64(offsets), load_i64(offsets + 8 * end), load_i64(feature + GRADS)
    for i in range(load_i64(offsets + 8 * begin), last):
        _ask(grads, 4 * dim, inverse, min(i + AHEAD, last), min(i + AHEAD + 1, last))
        u = load_i32(inverse + 4 * i)
        grad = load_i64(feature + GRAD_OUT) + load_i64(feature + STRIDE) * (i - first)
        if _mine(u, part, parts):
            factor = ONE if weights == 0 else load_f32(weights + 4 * i)
            _add_scaled(grads + 4 * dim * u, grad, dim, factor)
        if wanted != 0 and part == 0:
            own = _product(grad, load_i64(feature + ROWS) + 4 * dim * u, dim)
            store_f32(wanted + 4 * i, load_f32(wanted + 4 * i) + np.float32(own))


@kernel
def _spread(feature: int, begin: int, end: int, batch: int, part: int, parts: int, taken: int) -> None:
    """The gradients that batch rows `begin` to `end` give."""
    pooling, offsets = load_i64(feature + POOLING), load_i64(feature + OFFSETS)
    if pooling == NONE:
        _back_copy(feature, begin, end, part, parts)
        return
    stride, limit = load_i64(feature + STRIDE), load_i64(offsets + 8 * batch)
    weighted, start = load_i64(feature + GRAD_WEIGHTS) != 0, load_i64(offsets + 8 * begin)
    is_plain = pooling != MAX and load_i64(feature + WEIGHTS) == 0 and parts == 1
    dim, inverse, grads = load_i64(feature + DIM), load_i64(feature + INVERSE), load_i64(feature + GRADS)
    for b in range(begin, end):
        stop = load_i64(offsets + 8 * b + 8)
        n = stop - start
        out, grad = load_i64(feature + OUT) + stride * b, load_i64(feature + GRAD_OUT) + stride * b
        if n == 1 and is_plain:
            _ask(grads, 4 * dim, inverse, min(start + AHEAD, limit), min(start + AHEAD + 1, limit))
            _add(grads + 4 * dim * load_i32(inverse + 4 * start), grad, dim)
        elif n > 0 and pooling == MAX:
            _back_max(feature, start, n, out, grad, part, parts, taken)
        elif n > 0:
            _back_sum(feature, start, n, limit, grad, part, parts)
            if part == 0 and weighted:
                _back_weights(feature, start, n, out, grad)
        start = stop


@entry
def spread(features: int, count: int, batch: int, part: int, parts: int, taken: int) -> int:
    """Add the gradient of the outputs to those of the rows of a part.

    taken: D bytes, overwritten.   Facts: part 0 writes the gradients of weights too; a row's gradients are added in one
    order, whatever the number of parts.
    """
    for first in range(0, count, NEIGHBOURS):
        for row in range(0, batch, TILE):
            for f in range(first, min(first + NEIGHBOURS, count)):
                _spread(features + FEATURE_BYTES * f, row, min(row + TILE, batch), batch, part, parts, taken)
    return 0
