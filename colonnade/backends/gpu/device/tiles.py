"""Rows of different lengths cut into tiles of equal numbers of items."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def row_of_item(begins, rows, item):
    """The batch row that holds an item: the greatest r with `begins[r] + r <= item`."""
    low = item * 0
    high = rows + low
    while low + 1 < high:
        middle = (low + high) // 2
        before = tl.load(begins + middle) + middle <= item
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
    return low


@jit
def unit_of(prefix, num, program):
    """The unit that a program belongs to: the greatest u with `prefix[u] <= program`."""
    low = program * 0
    high = num + low
    while low + 1 < high:
        middle = (low + high) // 2
        before = tl.load(prefix + middle) <= program
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
    return low


@jit
def put_partial(to, values, BLOCK: tl.constexpr):
    """Stores [1, D] values."""
    tl.store(to + tl.arange(0, BLOCK)[None, :], values)


@jit
def partial(source, BLOCK: tl.constexpr):
    """[1, D] values that another program stored: past the cache that may hold older ones."""
    return tl.load(source + tl.arange(0, BLOCK)[None, :], cache_modifier=".cg")
