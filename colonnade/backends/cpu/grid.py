"""Bucketizing by a guessed place: equal cells over the boundaries say how many lie before each cell's.

    cell(x) = min(max(trunc((x - low) * scale), 0), last)

Facts: every step of `cell` rounds monotonically, so x < y gives cell(x) <= cell(y). Boundaries of cells before x's are
then <= x and those of cells after it are > x, whatever was rounded: only those of x's own cell are compared.
NaN and what overflows upwards fall into the last cell, which holds no boundary and has all of them before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.backends.memory import kernel, load_f32, load_i64, load_u16, store_i64
from colonnade.ops.bucketize import flushed

Floats = npt.NDArray[np.float32]

LOW, SCALE, LAST, COMPARED, CELLS, BOUNDS = 0, 4, 8, 16, 24, 64
"""Where each lies in a grid: three float32; how many boundaries are compared; where the cells lie; the boundaries."""
PER_BOUNDARY = (2, 4, 8, 16)
"""Cells a boundary that are tried, the fewest first."""
MOST_COMPARED = 4
MOST_CELLS = 1 << 16
"""Some 128 KB: more would not stay in a core's cache."""
LEAST_SPAN, MOST_SPAN = 2.0**-60, 2.0**60
"""Of boundaries that get a grid: far from where differences or products would be denormal or overflow."""
ZERO = np.float32(0)


def grid(bounds: Floats) -> npt.NDArray[np.uint8] | None:
    """The grid of nondecreasing boundaries with the fewest comparisons; None where a tree is better."""
    if len(bounds) < 2 or not np.isfinite(bounds).all():
        return None
    if not LEAST_SPAN <= float(bounds[-1]) - float(bounds[0]) <= MOST_SPAN:
        return None
    best: tuple[int, Floats, npt.NDArray[np.int64]] | None = None
    for each in PER_BOUNDARY:
        cells = each * len(bounds) + 2
        if cells > MOST_CELLS:
            break
        line = _line(bounds, cells)
        places = cell(bounds, line)
        compared = int(np.bincount(places).max())
        fits = places[-1] < cells - 1 and np.array_equal(places, cell(flushed(bounds), line))
        if fits and compared <= MOST_COMPARED and (best is None or compared < best[0]):
            best = (compared, line, places)
        if best is not None and best[0] == 1:
            break
    return None if best is None else _encoded(bounds, *best)


def _line(bounds: Floats, cells: int) -> Floats:
    """low, scale, last."""
    span = float(bounds[-1]) - float(bounds[0])
    return np.array([bounds[0], (cells - 2) / span, cells - 1], np.float32)


def cell(x: Floats, line: Floats) -> npt.NDArray[np.int64]:
    """The cell of each x, by the arithmetic of the kernels."""
    low, scale, last = line
    with np.errstate(over="ignore", invalid="ignore"):
        place = (x - low) * scale
    place = np.where(place < last, place, last)
    return np.where(place > 0, place, ZERO).astype(np.int64)


def _encoded(bounds: Floats, compared: int, line: Floats, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    cells = int(line[2]) + 1
    before = np.searchsorted(places, np.arange(cells), side="left").astype(np.uint16)
    padded = np.concatenate([bounds, np.full(compared, np.nan, np.float32)])  # NaN compares false: x may be +inf
    head = np.zeros(BOUNDS, np.uint8)
    head[LOW : LAST + 4] = line.view(np.uint8)
    head[COMPARED : CELLS + 8] = np.array([compared, BOUNDS + padded.nbytes], np.int64).view(np.uint8)
    return np.concatenate([head, padded.view(np.uint8), before.view(np.uint8)])


@kernel
def _before(x: np.float32, low: np.float32, scale: np.float32, last: np.float32, cells: int) -> int:
    """How many boundaries lie in cells before x's."""
    place = (x - low) * scale
    place = place if place < last else last
    place = place if place > ZERO else ZERO
    return load_u16(cells + 2 * np.int64(place))


@kernel
def grid_search(source: int, n: int, at: int, first: int, each: int, target: int) -> None:
    """`target = first + each * #{boundaries <= x}` of n float32 values, by the grid at an address."""
    low, scale, last = load_f32(at + LOW), load_f32(at + SCALE), load_f32(at + LAST)
    compared, cells, bounds = load_i64(at + COMPARED), at + load_i64(at + CELLS), at + BOUNDS
    if compared == 1:
        for i in range(n):
            x = load_f32(source + 4 * i)
            found = _before(x, low, scale, last, cells)
            found += np.int64(load_f32(bounds + 4 * found) <= x)
            store_i64(target + 8 * i, first + each * found)
    else:
        for i in range(n):
            x = load_f32(source + 4 * i)
            start = _before(x, low, scale, last, cells)
            found = start
            for j in range(compared):
                found += np.int64(load_f32(bounds + 4 * (start + j)) <= x)
            store_i64(target + 8 * i, first + each * found)
