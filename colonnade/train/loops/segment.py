"""Pooling of looked-up rows into the outputs.

Sums are added in TensorFlow's order, as the cpu backend does: the same bits.

Legend: `features` is the address of F features (`feature.py`); B batch rows; n elements of one batch row; D
embedding_dim.
"""

from __future__ import annotations

from colonnade.backends.atomics import atomic_add
from colonnade.backends.cpu.intrinsics import prefetch, scratch
from colonnade.backends.cpu.rows import max_rows, max_weighted, prefetch_row, scale_row
from colonnade.backends.lanes import LANES, copy_row, load_lanes, store_lanes
from colonnade.backends.memory import inlined, kernel, load_f32, load_i32, load_i64, store_f32, store_i64
from colonnade.train.loops import call as c
from colonnade.train.loops import feature as w
from colonnade.train.loops.blocks import sum_rows, sum_weighted
from colonnade.train.loops.entry import entry

CHUNK = 256
"""Rows whose addresses are written down at a time."""

_addresses = scratch(8 * CHUNK)


@kernel
def _pool_max(dim: int, rows: int, inverse: int, weights: int, n: int, out: int, addresses: int) -> None:
    """The greatest of n rows, zeros of none. inverse, weights (0: none): of the first."""
    if n == 0:
        for k in range(dim):
            store_f32(out + 4 * k, w.ZERO)
    for done in range(0, n, CHUNK):
        size = min(n - done, CHUNK)
        for i in range(size):
            row = rows + 4 * dim * load_i32(inverse + 4 * (done + i))
            prefetch(row)
            store_i64(addresses + 8 * i, row)
        if weights == 0:
            max_rows(addresses, size, done == 0, out, dim)
        else:
            max_weighted(addresses, weights + 4 * done, size, done == 0, out, dim)


@inlined
def _copy_each(rows: int, inverse: int, last: int, n: int, out: int, stride: int, dim: int) -> None:
    """The rows of n elements, each to where the next batch row lies.

    inverse, last: of the first, and of the feature's last.
    """
    if dim == LANES:
        for _ in range(n):
            prefetch(out + stride * w.ROWS_AHEAD)
            prefetch(rows + 4 * LANES * load_i32(min(inverse + 4 * w.AHEAD, last)))
            store_lanes(out, load_lanes(rows + 4 * LANES * load_i32(inverse)))
            inverse += 4
            out += stride
        return
    size = 4 * dim
    for _ in range(n):
        prefetch(out + stride * w.ROWS_AHEAD)
        prefetch_row(rows + size * load_i32(min(inverse + 4 * w.AHEAD, last)), size)
        copy_row(rows + size * load_i32(inverse), out, dim)
        inverse += 4
        out += stride


@kernel
def _copy(feature: int, begin: int, end: int) -> None:
    """Of a feature that is not pooled: the rows of elements of batch rows `begin` to `end`, times their weights."""
    offsets, inverse = load_i64(feature + w.OFFSETS), load_i64(feature + w.INVERSE)
    rows, dim, weights = load_i64(feature + w.ROWS), load_i64(feature + w.DIM), load_i64(feature + w.WEIGHTS)
    start, stop, stride = load_i64(offsets + 8 * begin), load_i64(offsets + 8 * end), load_i64(feature + w.STRIDE)
    out = load_i64(feature + w.OUT) + stride * (start - load_i64(offsets))
    if weights == 0:
        _copy_each(rows, inverse + 4 * start, inverse + 4 * (stop - 1), stop - start, out, stride, dim)
        return
    for i in range(start, stop):
        prefetch(rows + 4 * dim * load_i32(inverse + 4 * min(i + w.AHEAD, stop - 1)))
        scale_row(rows + 4 * dim * load_i32(inverse + 4 * i), out, dim, load_f32(weights + 4 * i))
        out += stride


@kernel
def _pool(feature: int, begin: int, end: int, batch: int, addresses: int) -> None:
    """The outputs of batch rows `begin` to `end`."""
    pooling = load_i64(feature + w.POOLING)
    if pooling == w.NONE:
        _copy(feature, begin, end)
        return
    offsets, dim, weights = load_i64(feature + w.OFFSETS), load_i64(feature + w.DIM), load_i64(feature + w.WEIGHTS)
    limit, start = load_i64(offsets + 8 * batch), load_i64(offsets + 8 * begin)
    stride, rows, inverse = load_i64(feature + w.STRIDE), load_i64(feature + w.ROWS), load_i64(feature + w.INVERSE)
    out = load_i64(feature + w.OUT)
    if weights == 0 and w.are_single(offsets, begin, end):
        _copy_each(rows, inverse + 4 * start, inverse + 4 * (limit - 1), end - begin, out + stride * begin, stride, dim)
    elif pooling == w.MAX:
        for b in range(begin, end):
            first, stop = load_i64(offsets + 8 * b), load_i64(offsets + 8 * b + 8)
            own = weights + 4 * first if weights != 0 else 0
            _pool_max(dim, rows, inverse + 4 * first, own, stop - first, out + stride * b, addresses)
    elif weights == 0:
        sum_rows(dim, rows, out, feature, begin, end, limit)
    else:
        sum_weighted(dim, rows, out, feature, begin, end, limit)


@entry
def pool(call: int) -> int:
    """Write the outputs of a call's features; zeros for a batch row without elements. For any number of threads.

    Facts: neighbouring features write to neighbouring places, so that a few features are at work on a few batch rows.
    """
    addresses, batch, count = _addresses(), load_i64(call + c.BATCH), load_i64(call + c.FEATURES)
    features, rows = load_i64(call + c.FIRST_FEATURE), load_i64(call + c.ITEM_ROWS)
    chunks = (batch + rows - 1) // rows
    while True:
        item = atomic_add(call + c.NEXT, 1)
        if item >= load_i64(call + c.ITEMS):
            return 0
        first, begin = w.NEIGHBOURS * (item // chunks), rows * (item % chunks)
        end = min(begin + rows, batch)
        for row in range(begin, end, w.TILE):
            for f in range(first, min(first + w.NEIGHBOURS, count)):
                _pool(features + w.FEATURE_BYTES * f, row, min(row + w.TILE, end), batch, addresses)
