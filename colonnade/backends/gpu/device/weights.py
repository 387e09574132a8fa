"""One weighted row a batch row, pooled: TensorFlow divides the product by the weight again."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def weighted_sum(rows, weight):
    """`w v`; rows [N, D], weight [N]."""
    return rows * weight[:, None]


@jit
def weighted_max(rows, weight):
    """`w v`."""
    return rows * weight[:, None]


@jit
def weighted_marks(rows, weight):
    """`0 + w v` where v is not 0."""
    return tl.where(rows == 0.0, 0.0, 0.0 + rows * weight[:, None])


@jit
def weighted_mean(rows, weight):
    """`(w v) / w`; 0 where w is 0."""
    zero = (weight == 0.0)[:, None]
    return tl.where(zero, 0.0, tl.div_rn(rows * weight[:, None], tl.where(weight == 0.0, 1.0, weight)[:, None]))


@jit
def weighted_sqrtn(rows, weight):
    """`(w v) / sqrt(w w)`; 0 where that is 0."""
    root = tl.sqrt_rn(weight * weight)
    return tl.where(
        (root == 0.0)[:, None], 0.0, tl.div_rn(rows * weight[:, None], tl.where(root == 0.0, 1.0, root)[:, None])
    )
