"""Sums along the last axis in the order of TensorFlow's kernel, so that what is made of them has the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

LANES = 8
MOST = 1024 * LANES
"""Longer rows are summed in halves whose border depends on where the row lies."""


def row_sums(x: npt.NDArray[Any]) -> Floats:
    """`[..., D]` float32 -> `[...]`: eight lanes, four of them at a time while there are, then the rest one by one.

    Source: the reducer of innermost dims, for vectors of eight floats.
    """
    *rest, width = x.shape
    rows = x.reshape(-1, width) if x.size else np.zeros((int(np.prod(rest)), width), np.float32)
    whole, fourfold = width // LANES * LANES, width // (4 * LANES) * 4 * LANES
    lanes = np.zeros((4, len(rows), LANES), np.float32)
    for start in range(0, fourfold, LANES):
        lanes[start // LANES % 4] += rows[:, start : start + LANES]
    first: Floats = lanes[0] + lanes[1] + lanes[2] + lanes[3] if fourfold else lanes[0]
    for start in range(fourfold, whole, LANES):
        first = first + rows[:, start : start + LANES]
    total = np.zeros(len(rows), np.float32)
    for place in range(whole, width):
        total = total + rows[:, place]
    half = first[:, :4] + first[:, 4:]
    pair = half[:, :2] + half[:, 2:]
    made: Floats = (total + (pair[:, 0] + pair[:, 1])).reshape(rest)
    return made
