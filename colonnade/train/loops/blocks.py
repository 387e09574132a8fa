"""Sums of rows, and additions to rows, for batch rows that are neighbours, in blocks of columns that registers hold.

Each block of columns is a pass of its own: it reads cache lines that no other block does.

Legend: `feature` is the address of one (`feature.py`); `rows` and `out` are those of a column of its row 0 and of its
batch row 0; `limit` ends its elements; n elements of one batch row; D embedding_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colonnade.backends.cpu.intrinsics import prefetch
from colonnade.backends.cpu.rows import GROUP, leading
from colonnade.backends.lanes import LANES, Vectors, vectors
from colonnade.backends.memory import inlined, kernel, load_f32, load_i32, load_i64
from colonnade.train.loops import feature as w
from colonnade.train.loops.parts import mine

LINE = 64
BLOCKS = (32, 16, 8, 4, 1)
"""Columns of a block; a sum of 32 with its parts takes half of the registers that a CPU has."""


def _by_blocks(made: Callable[[Vectors], Any]) -> Any:
    """A kernel (D, rows, out, others) that does all columns, block by block.

    made: gives what does a block's, called with addresses of its first column, and whether there are none before.
    """
    widest, wide, eight, four, one = (made(vectors(count)) for count in BLOCKS)

    @kernel
    def run(dim: int, rows: int, out: int, *others: Any) -> None:
        k = 0
        while k + 32 <= dim:
            widest(rows + 4 * k, out + 4 * k, k == 0, *others)
            k += 32
        if k + 16 <= dim:
            wide(rows + 4 * k, out + 4 * k, k == 0, *others)
            k += 16
        if k + 8 <= dim:
            eight(rows + 4 * k, out + 4 * k, k == 0, *others)
            k += 8
        if k + 4 <= dim:
            four(rows + 4 * k, out + 4 * k, k == 0, *others)
            k += 4
        while k < dim:
            one(rows + 4 * k, out + 4 * k, k == 0, *others)
            k += 1

    return run


def _asking(v: Vectors) -> Any:
    """What begins to read the block's columns of the rows that are needed AHEAD elements later.

    first: whether no other block has columns before; else few columns lie in a line that was asked for.
    """
    lines, count = -(-4 * v.count // LINE), v.count

    @inlined
    def ask(rows: int, size: int, first: bool, inverse: int, begin: int, end: int, limit: int) -> None:
        if count < LANES and not first:
            return
        for i in range(min(begin + w.AHEAD, limit), min(end + w.AHEAD, limit)):
            row = rows + size * load_i32(inverse + 4 * i)
            prefetch(row)
            if lines == 2:
                prefetch(row + LINE)

    return ask


def _sum(v: Vectors) -> Any:
    load, store, lanes, add, mul, div, ask = v.load, v.store, v.lanes, v.add, v.mul, v.div, _asking(v)

    @inlined
    def block(rows: int, out: int, first: bool, feature: int, begin: int, end: int, limit: int) -> None:
        size, stride = 4 * load_i64(feature + w.DIM), load_i64(feature + w.STRIDE)
        pooling = load_i64(feature + w.POOLING)
        offsets, inverse = load_i64(feature + w.OFFSETS), load_i64(feature + w.INVERSE)
        start = load_i64(offsets + 8 * begin)
        for b in range(begin, end):
            stop = load_i64(offsets + 8 * b + 8)
            n, to = stop - start, out + stride * b
            prefetch(to + w.ROWS_AHEAD * stride)
            ask(rows, size, first, inverse, start, stop, limit)
            if n == 0:
                store(to, lanes(w.ZERO))
                continue
            lead = leading(n)
            total = load(rows + size * load_i32(inverse + 4 * start))
            for i in range(start + 1, start + lead):
                total = add(total, load(rows + size * load_i32(inverse + 4 * i)))
            for i in range(start + lead, stop, GROUP):
                part = load(rows + size * load_i32(inverse + 4 * i))
                for j in range(i + 1, i + GROUP):
                    part = add(part, load(rows + size * load_i32(inverse + 4 * j)))
                total = add(total, part)
            if pooling != w.SUM and n > 1:
                divisor = w.divisor_of(pooling, 0, n)
                # As TensorFlow does from ten rows on, and below.
                total = mul(total, lanes(np.float32(w.ONE / divisor))) if n < 10 else div(total, lanes(divisor))
            store(to, total)
            start = stop

    return block


def _weighted_sum(v: Vectors) -> Any:
    load, store, lanes, add, mul, div, ask = v.load, v.store, v.lanes, v.add, v.mul, v.div, _asking(v)

    @inlined
    def block(rows: int, out: int, first: bool, feature: int, begin: int, end: int, limit: int) -> None:
        size, stride = 4 * load_i64(feature + w.DIM), load_i64(feature + w.STRIDE)
        pooling = load_i64(feature + w.POOLING)
        offsets, inverse, weights = (
            load_i64(feature + w.OFFSETS),
            load_i64(feature + w.INVERSE),
            load_i64(feature + w.WEIGHTS),
        )
        start = load_i64(offsets + 8 * begin)
        for b in range(begin, end):
            stop, to = load_i64(offsets + 8 * b + 8), out + stride * b
            ask(rows, size, first, inverse, start, stop, limit)
            total = lanes(w.ZERO)
            if stop > start:
                row = load(rows + size * load_i32(inverse + 4 * start))
                total = mul(row, lanes(load_f32(weights + 4 * start)))
            for i in range(start + 1, stop):
                row = load(rows + size * load_i32(inverse + 4 * i))
                total = add(total, mul(row, lanes(load_f32(weights + 4 * i))))
            if pooling != w.SUM and stop > start:
                divisor = w.divisor_of(pooling, weights + 4 * start, stop - start)
                total = lanes(w.ZERO) if divisor == w.ZERO else div(total, lanes(divisor))
            store(to, total)
            start = stop

    return block


def _addition(v: Vectors) -> Any:
    load, store, lanes, add, mul, ask = v.load, v.store, v.lanes, v.add, v.mul, _asking(v)

    @inlined
    def block(
        rows: int, out: int, first: bool, feature: int, begin: int, end: int, limit: int, part: int, parts: int
    ) -> None:
        size, stride = 4 * load_i64(feature + w.DIM), load_i64(feature + w.STRIDE)
        pooling = load_i64(feature + w.POOLING)
        offsets, inverse = load_i64(feature + w.OFFSETS), load_i64(feature + w.INVERSE)
        start = load_i64(offsets + 8 * begin)
        for b in range(begin, end):
            stop, source = load_i64(offsets + 8 * b + 8), out + stride * b
            prefetch(source + w.ROWS_AHEAD * stride)
            ask(rows, size, first, inverse, start, stop, limit)
            if stop > start:
                added = load(source)
                if pooling != w.SUM:
                    added = mul(added, lanes(w.scale_of(pooling, 0, stop - start)))
                for i in range(start, stop):
                    u = load_i32(inverse + 4 * i)
                    if mine(u, part, parts):
                        store(rows + size * u, add(load(rows + size * u), added))
            start = stop

    return block


def _weighted_addition(v: Vectors) -> Any:
    load, store, lanes, add, mul, ask = v.load, v.store, v.lanes, v.add, v.mul, _asking(v)

    @inlined
    def block(
        rows: int, out: int, first: bool, feature: int, begin: int, end: int, limit: int, part: int, parts: int
    ) -> None:
        size, stride = 4 * load_i64(feature + w.DIM), load_i64(feature + w.STRIDE)
        pooling = load_i64(feature + w.POOLING)
        offsets, inverse, weights = (
            load_i64(feature + w.OFFSETS),
            load_i64(feature + w.INVERSE),
            load_i64(feature + w.WEIGHTS),
        )
        start = load_i64(offsets + 8 * begin)
        for b in range(begin, end):
            stop = load_i64(offsets + 8 * b + 8)
            ask(rows, size, first, inverse, start, stop, limit)
            if stop > start:
                given, scale = load(out + stride * b), w.scale_of(pooling, weights + 4 * start, stop - start)
                for i in range(start, stop):
                    u = load_i32(inverse + 4 * i)
                    if mine(u, part, parts):
                        added = mul(given, lanes(load_f32(weights + 4 * i) * scale))
                        store(rows + size * u, add(load(rows + size * u), added))
            start = stop

    return block


sum_rows, sum_weighted = _by_blocks(_sum), _by_blocks(_weighted_sum)
"""(D, rows, out, feature, begin, end, limit): the sums, means or what else of batch rows `begin` to `end`."""
add_to_rows, add_weighted = _by_blocks(_addition), _by_blocks(_weighted_addition)
"""(D, grads, gradient of the output, feature, begin, end, limit, part, parts): add what those batch rows give to the
gradients of their rows, those of the part."""
