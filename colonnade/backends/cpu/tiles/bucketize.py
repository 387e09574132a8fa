"""The tile of `bucketize`: by a grid where boundaries allow one, else by a tree of 16 boundaries a node.

A tree is searched by counting the boundaries of a node that are <= x.
A leaf holds 16 boundaries. A node of height h holds 16 pivots and then its 17 subtrees; pivot i is the last boundary
of subtree i. So the count of pivots <= x is the subtree to descend into, and all subtrees before it count in full.
Facts: the tree ends with its last boundary's leaf; pads are NaN, which compares false, so that +inf stays in bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.cpu.grid import grid, grid_search
from colonnade.backends.cpu.intrinsics import count_at_most_f32, count_at_most_f64
from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import kernel, load_f32, load_f64, load_i64, store_i64
from colonnade.ops.bucketize import Bucketize, flushed

Floats = npt.NDArray[np.floating[Any]]

Search = Callable[..., int]

NODE = 16
HOLDS = tuple(NODE * (NODE + 1) ** k for k in range(6))
"""Boundaries in a full subtree of height k + 1."""
SIZE = tuple(sum(HOLDS[: k + 1]) for k in range(6))
"""Numbers in a full subtree of height k + 1."""
INF32, INF64 = np.float32(np.inf), np.float64(np.inf)


def tree(bounds: Floats, height: int) -> Floats:
    """The boundaries as a tree of that height."""
    if height == 1:
        return np.concatenate([bounds, np.full(NODE - len(bounds), np.nan, bounds.dtype)])
    each = HOLDS[height - 2]
    pivots = bounds[each - 1 :: each][:NODE]
    parts = [tree(pivots, 1)]
    parts += [tree(bounds[i * each : (i + 1) * each], height - 1) for i in range(len(pivots) + 1)]
    return np.concatenate(parts)


def height_of(count: int) -> int:
    """The least height that holds so many boundaries."""
    return next(k + 1 for k, holds in enumerate(HOLDS) if count <= holds)


def _search(
    count: Callable[[int, Any], int], bytes_each: int
) -> tuple[Callable[..., int], Callable[..., int], Callable[..., int]]:
    """Searches for trees of height 2, 3 and more."""

    @kernel
    def two(at: int, x: float) -> int:
        child = count(at, x)
        return child * NODE + count(at + bytes_each * NODE * (1 + child), x)

    @kernel
    def three(at: int, x: float) -> int:
        child = count(at, x)
        return child * HOLDS[1] + two(at + bytes_each * (NODE + child * SIZE[1]), x)

    @kernel
    def more(at: int, height: int, x: float) -> int:
        found = 0
        for k in range(height - 2, 1, -1):
            child = count(at, x)
            found += child * HOLDS[k]
            at += bytes_each * (NODE + child * SIZE[k])
        return found + three(at, x)

    return two, three, more


_TWO_F32, _THREE_F32, _MORE_F32 = _search(count_at_most_f32, 4)
_TWO_F64, _THREE_F64, _MORE_F64 = _search(count_at_most_f64, 8)


@tile
@kernel
def bucketize_f32(step: int, source: int, n: int, target: int) -> None:
    """float32 against float32 boundaries."""
    root, height = load_i64(step + 8), load_i64(step + 16)
    if height == 2:
        for i in range(n):
            x = load_f32(source + 4 * i)
            store_i64(target + 8 * i, _TWO_F32(root, x if x == x else INF32))
    elif height == 1:
        for i in range(n):
            x = load_f32(source + 4 * i)
            store_i64(target + 8 * i, count_at_most_f32(root, x if x == x else INF32))
    elif height == 3:
        for i in range(n):
            x = load_f32(source + 4 * i)
            store_i64(target + 8 * i, _THREE_F32(root, x if x == x else INF32))
    else:
        for i in range(n):
            x = load_f32(source + 4 * i)
            store_i64(target + 8 * i, _MORE_F32(root, height, x if x == x else INF32))


@tile
@kernel
def bucketize_grid(step: int, source: int, n: int, target: int) -> None:
    """float32 against float32 boundaries that have a grid."""
    grid_search(source, n, load_i64(step + 8), 0, 1, target)


@kernel
def _find_f64(root: int, height: int, x: np.float64) -> int:
    x = x if x == x else INF64
    if height == 1:
        return count_at_most_f64(root, x)
    if height == 2:
        return _TWO_F64(root, x)
    if height == 3:
        return _THREE_F64(root, x)
    return _MORE_F64(root, height, x)


@kernel
def _find_f32(root: int, height: int, x: np.float32) -> int:
    if height == 1:
        return count_at_most_f32(root, x)
    if height == 2:
        return _TWO_F32(root, x)
    if height == 3:
        return _THREE_F32(root, x)
    return _MORE_F32(root, height, x)


@tile
@kernel
def bucketize_f64(step: int, source: int, n: int, target: int) -> None:
    """float64 against float64 boundaries."""
    root, height = load_i64(step + 8), load_i64(step + 16)
    for i in range(n):
        store_i64(target + 8 * i, _find_f64(root, height, load_f64(source + 8 * i)))


@tile
@kernel
def bucketize_int(step: int, source: int, n: int, target: int) -> None:
    """Integers, rounded to float32, against float32 boundaries."""
    root, height = load_i64(step + 8), load_i64(step + 16)
    for i in range(n):
        store_i64(target + 8 * i, _find_f32(root, height, np.float32(load_i64(source + 8 * i))))


@kernel
def bucketized_rows(source: int, n: int, root: int, height: int, table: int, size: int, rows: int) -> None:
    """The address of each float32 value's table row: bucketize and look-up in one pass.

    Facts: `root` is a tree of height 1 to 3, or of height 0: a grid.
    """
    if height == 0:
        grid_search(source, n, root, table, size, rows)
    elif height == 2:
        for i in range(n):
            x = load_f32(source + 4 * i)
            store_i64(rows + 8 * i, table + size * _TWO_F32(root, x if x == x else INF32))
    elif height == 1:
        for i in range(n):
            x = load_f32(source + 4 * i)
            store_i64(rows + 8 * i, table + size * count_at_most_f32(root, x if x == x else INF32))
    else:
        for i in range(n):
            x = load_f32(source + 4 * i)
            store_i64(rows + 8 * i, table + size * _THREE_F32(root, x if x == x else INF32))


@lowering(Bucketize)
def lower(op: Bucketize, dtype: str, memory: Memory) -> list[Step]:
    """Parameters: address of the tree, height; of a grid, 0."""
    bounds = flushed(op.boundaries.array) if op.flush_denormals else op.boundaries.array
    bounds = bounds.astype(np.float64 if dtype == "float64" else np.float32)
    if op.flush_denormals:
        bounds = _below_denormals(bounds)
    found = grid(bounds) if dtype == "float32" else None
    if found is not None:
        return [Step("bucketize_grid", (memory.add(found), 0))]
    height = height_of(len(bounds))
    name = {"float32": "bucketize_f32", "float64": "bucketize_f64"}.get(dtype, "bucketize_int")
    return [Step(name, (memory.add(tree(bounds, height)), height))]


def _below_denormals(bounds: Floats) -> Floats:
    """With a zero boundary moved below every negative denormal, a denormal x compares as zero would."""
    least = -np.finfo(bounds.dtype).tiny
    return np.where(bounds == 0, np.nextafter(least, np.zeros_like(least)), bounds)
