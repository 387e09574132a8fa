"""The way back from pooled outputs, where an id's gradients are added before they leave.

Each value has one writer, and what is added to it comes in one order: the same bits, whatever the number of parts.

Legend: `features` is the address of F features (`feature.py`); B batch rows; n elements of one batch row; D
embedding_dim.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.atomics import atomic_add
from colonnade.backends.cpu.intrinsics import prefetch
from colonnade.backends.cpu.rows import prefetch_row
from colonnade.backends.lanes import LANES, add_lanes, lanes, load_lanes, mul_lanes, store_lanes
from colonnade.backends.memory import inlined, kernel, load_f32, load_i32, load_i64, load_u8, store_f32, store_u8
from colonnade.train.loops import call as c
from colonnade.train.loops import feature as w
from colonnade.train.loops.blocks import add_to_rows, add_weighted
from colonnade.train.loops.entry import entry
from colonnade.train.loops.parts import mine


@kernel
def _product(a: int, b: int, dim: int) -> float:
    total = 0.0
    for k in range(dim):
        total += float(load_f32(a + 4 * k)) * float(load_f32(b + 4 * k))
    return total


@inlined
def _add_row(to: int, source: int, dim: int, factor: np.float32) -> None:
    k, many = 0, lanes(factor)
    while k + LANES <= dim:
        store_lanes(to + 4 * k, add_lanes(load_lanes(to + 4 * k), mul_lanes(load_lanes(source + 4 * k), many)))
        k += LANES
    while k < dim:
        store_f32(to + 4 * k, load_f32(to + 4 * k) + load_f32(source + 4 * k) * factor)
        k += 1


@inlined
def _add_each(grads: int, inverse: int, last: int, n: int, grad: int, stride: int, dim: int) -> None:
    """The gradients of n batch rows of one element each. inverse, last: of the first, and of the feature's last."""
    if dim == LANES:
        for _ in range(n):
            prefetch(grad + stride * w.ROWS_AHEAD)
            prefetch(grads + 4 * LANES * load_i32(min(inverse + 4 * w.AHEAD, last)))
            to = grads + 4 * LANES * load_i32(inverse)
            store_lanes(to, add_lanes(load_lanes(to), load_lanes(grad)))
            inverse += 4
            grad += stride
        return
    size = 4 * dim
    for _ in range(n):
        prefetch(grad + stride * w.ROWS_AHEAD)
        prefetch_row(grads + size * load_i32(min(inverse + 4 * w.AHEAD, last)), size)
        _add_row(grads + size * load_i32(inverse), grad, dim, w.ONE)
        inverse += 4
        grad += stride


@kernel
def _back_max(feature: int, start: int, n: int, out: int, grad: int, part: int, parts: int, taken: int) -> None:
    """The gradient of each greatest value goes to its first element."""
    dim, inverse, grads = load_i64(feature + w.DIM), load_i64(feature + w.INVERSE), load_i64(feature + w.GRADS)
    rows, weights = load_i64(feature + w.ROWS), load_i64(feature + w.WEIGHTS)
    wanted = load_i64(feature + w.GRAD_WEIGHTS)
    for k in range(dim):
        store_u8(taken + k, np.uint8(0))
    for i in range(start, start + n):
        u = load_i32(inverse + 4 * i)
        factor = w.ONE if weights == 0 else load_f32(weights + 4 * i)
        of_weight = 0.0
        for k in range(dim):
            value, most = load_f32(rows + 4 * (dim * u + k)), load_f32(out + 4 * k)
            product = value if weights == 0 else value * factor
            if load_u8(taken + k) == 0 and (product == most or (product != product and most != most)):
                store_u8(taken + k, np.uint8(1))
                g = load_f32(grad + 4 * k)
                of_weight += float(g) * float(value)
                if mine(u, part, parts):
                    to = grads + 4 * (dim * u + k)
                    store_f32(to, load_f32(to) + g * factor)
        if wanted != 0 and part == 0:
            store_f32(wanted + 4 * i, load_f32(wanted + 4 * i) + np.float32(of_weight))


@kernel
def _back_weights(feature: int, start: int, n: int, out: int, grad: int) -> None:
    """The gradients of weights of one batch row, pooled by sum, mean or sqrtn."""
    dim, inverse, rows = load_i64(feature + w.DIM), load_i64(feature + w.INVERSE), load_i64(feature + w.ROWS)
    weights, wanted = load_i64(feature + w.WEIGHTS), load_i64(feature + w.GRAD_WEIGHTS)
    pooling = load_i64(feature + w.POOLING)
    scale = w.scale_of(pooling, weights + 4 * start, n)
    along = 0.0 if pooling == w.SUM else _product(grad, out, dim)
    for i in range(start, start + n):
        u, x = load_i32(inverse + 4 * i), load_f32(weights + 4 * i)
        own = _product(grad, rows + 4 * dim * u, dim)
        less = along * float(x) * float(scale) if pooling == w.SQRTN else along
        added = np.float32((own - less) * float(scale))
        store_f32(wanted + 4 * i, load_f32(wanted + 4 * i) + added)


@kernel
def _back_copy(feature: int, begin: int, end: int, part: int, parts: int) -> None:
    """Of a feature that is not pooled."""
    offsets, inverse = load_i64(feature + w.OFFSETS), load_i64(feature + w.INVERSE)
    dim, weights, wanted = load_i64(feature + w.DIM), load_i64(feature + w.WEIGHTS), load_i64(feature + w.GRAD_WEIGHTS)
    start, stop, stride = load_i64(offsets + 8 * begin), load_i64(offsets + 8 * end), load_i64(feature + w.STRIDE)
    grad, grads = load_i64(feature + w.GRAD_OUT) + stride * (start - load_i64(offsets)), load_i64(feature + w.GRADS)
    if weights == 0 and parts == 1:
        _add_each(grads, inverse + 4 * start, inverse + 4 * (stop - 1), stop - start, grad, stride, dim)
        return
    for i in range(start, stop):
        prefetch(grads + 4 * dim * load_i32(inverse + 4 * min(i + w.AHEAD, stop - 1)))
        u = load_i32(inverse + 4 * i)
        if mine(u, part, parts):
            _add_row(grads + 4 * dim * u, grad, dim, w.ONE if weights == 0 else load_f32(weights + 4 * i))
        if wanted != 0 and part == 0:
            own = np.float32(_product(grad, load_i64(feature + w.ROWS) + 4 * dim * u, dim))
            store_f32(wanted + 4 * i, load_f32(wanted + 4 * i) + own)
        grad += stride


@kernel
def _back_sums(feature: int, begin: int, end: int, batch: int, part: int, parts: int) -> None:
    """The gradients of rows, pooled by sum, mean or sqrtn."""
    offsets, inverse, grads = load_i64(feature + w.OFFSETS), load_i64(feature + w.INVERSE), load_i64(feature + w.GRADS)
    dim, weights = load_i64(feature + w.DIM), load_i64(feature + w.WEIGHTS)
    stride, limit, start = load_i64(feature + w.STRIDE), load_i64(offsets + 8 * batch), load_i64(offsets + 8 * begin)
    grad = load_i64(feature + w.GRAD_OUT)
    if weights != 0:
        add_weighted(dim, grads, grad, feature, begin, end, limit, part, parts)
    elif parts == 1 and w.are_single(offsets, begin, end):
        first, last = inverse + 4 * start, inverse + 4 * (limit - 1)
        _add_each(grads, first, last, end - begin, grad + stride * begin, stride, dim)
    else:
        add_to_rows(dim, grads, grad, feature, begin, end, limit, part, parts)


@kernel
def _spread(feature: int, begin: int, end: int, batch: int, part: int, parts: int, taken: int) -> None:
    """The gradients that batch rows `begin` to `end` give."""
    pooling, offsets = load_i64(feature + w.POOLING), load_i64(feature + w.OFFSETS)
    if pooling == w.NONE:
        _back_copy(feature, begin, end, part, parts)
        return
    if pooling != w.MAX:
        _back_sums(feature, begin, end, batch, part, parts)
        if part != 0 or load_i64(feature + w.GRAD_WEIGHTS) == 0:
            return
    stride = load_i64(feature + w.STRIDE)
    for b in range(begin, end):
        start, stop = load_i64(offsets + 8 * b), load_i64(offsets + 8 * b + 8)
        out, grad = load_i64(feature + w.OUT) + stride * b, load_i64(feature + w.GRAD_OUT) + stride * b
        if stop > start and pooling == w.MAX:
            _back_max(feature, start, stop - start, out, grad, part, parts, taken)
        elif stop > start:
            _back_weights(feature, start, stop - start, out, grad)


@kernel
def _spread_part(call: int, part: int, parts: int) -> None:
    features, count, batch = load_i64(call + c.FIRST_FEATURE), load_i64(call + c.FEATURES), load_i64(call + c.BATCH)
    taken = load_i64(call + c.TAKEN) + load_i64(call + c.TAKEN_BYTES) * part
    for first in range(0, count, w.NEIGHBOURS):
        for row in range(0, batch, w.TILE):
            for f in range(first, min(first + w.NEIGHBOURS, count)):
                _spread(features + w.FEATURE_BYTES * f, row, min(row + w.TILE, batch), batch, part, parts, taken)


@entry
def spread(call: int) -> int:
    """Add the gradient of the outputs to those of the rows. For any number of threads: an item is a part of the rows.

    Facts: part 0 writes the gradients of weights too.
    """
    parts = load_i64(call + c.ITEMS)
    while True:
        part = atomic_add(call + c.NEXT, 1)
        if part >= parts:
            return 0
        _spread_part(call, part, parts)
