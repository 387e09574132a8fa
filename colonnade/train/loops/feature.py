"""How a feature that is pooled lies in memory, and what both ways of pooling ask of it.

Legend: `feature` is the address of FEATURE_BYTES; B batch rows; N elements; n elements of one batch row; U rows;
D embedding_dim.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.memory import inlined, kernel, load_f32, load_i64

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
NEIGHBOURS, TILE = 16, 256
"""Features and batch rows that are worked on together: what they read and write stays in the caches."""
AHEAD = 16
"""Elements whose rows are asked for before they are used."""
ROWS_AHEAD = 8
"""Batch rows whose outputs are."""


@inlined
def are_single(offsets: int, begin: int, end: int) -> bool:
    """Whether batch rows `begin` to `end` have one element each."""
    first, odd = load_i64(offsets + 8 * begin) - begin, 0
    for b in range(begin + 1, end + 1):
        odd |= load_i64(offsets + 8 * b) - b - first
    return odd == 0


@kernel
def _weight_sum(weights: int, n: int, squared: bool) -> np.float32:
    total = ZERO
    for i in range(n):
        x = load_f32(weights + 4 * i)
        total += x * x if squared else x
    return total


@inlined
def divisor_of(pooling: int, weights: int, n: int) -> np.float32:
    """What the sum over a batch row is divided by. weights: address of its first, 0: none."""
    if pooling == MEAN:
        return np.float32(n) if weights == 0 else _weight_sum(weights, n, False)
    if pooling == SQRTN:
        return np.float32(np.sqrt(np.float32(n) if weights == 0 else _weight_sum(weights, n, True)))
    return ONE


@inlined
def scale_of(pooling: int, weights: int, n: int) -> np.float32:
    """What an output's gradient is multiplied by, besides weights. weights: of the first element, 0: none."""
    divisor = divisor_of(pooling, weights, n)
    return ZERO if divisor == ZERO else ONE / divisor
