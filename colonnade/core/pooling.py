"""Pooling of each batch row's vectors, in their own precision and in the order in which TensorFlow adds.

Legend: B batch rows, N elements, n elements of one row, R batch rows of one n, D embedding_dim.
"""

from __future__ import annotations

import torch

from colonnade.core.roots import nearest_sqrt

POOLINGS = ("sum", "mean", "sqrtn")
MARKS = "marks"
"""`0 + sum of weight * value` over the values that are not 0: what a weight stands beside, and not in, takes nothing of
it, also where it is infinite or no number."""
BLOCK = 8
"""TensorFlow adds the first n % 8 vectors one by one (8 for 0, 9 for 1), then blocks of 8 that it adds up first."""


def pool(
    vectors_ND: torch.Tensor, rows_N: torch.Tensor, weights_N: torch.Tensor | None, pooling: str, num_rows: int
) -> torch.Tensor:
    """`out[b] = pooling(w_i * v_i for i with rows[i] = b)`; zeros for a row without elements.

    Shapes: [B, D], of the vectors' dtype.

    Facts: mean divides by the number of elements or the sum of weights, sqrtn by the root of the number or of the sum
    of squared weights; a weighted divisor of 0 gives 0.   Source: TensorFlow 2.21's SparseSegmentSum/Mean/SqrtN on a
    CPU, bit for bit; weighted: embedding_lookup_sparse.
    """
    out_BD = torch.zeros(num_rows, vectors_ND.shape[1], dtype=vectors_ND.dtype)
    counts_B = torch.bincount(rows_N, minlength=num_rows)
    starts_B = counts_B.cumsum(0) - counts_B
    for n in counts_B.unique().tolist():
        if n == 0:
            continue
        which_R = torch.nonzero(counts_B == n).reshape(-1)
        elements_Rn = starts_B[which_R, None] + torch.arange(n)
        vectors_RnD = vectors_ND[elements_Rn]
        if weights_N is None:
            out_BD[which_R] = _plain(vectors_RnD, pooling)
        else:
            out_BD[which_R] = _weighted(vectors_RnD, weights_N[elements_Rn], pooling)
    return out_BD


def _plain(vectors_RnD: torch.Tensor, pooling: str) -> torch.Tensor:
    n = vectors_RnD.shape[1]
    if pooling == "max":
        return vectors_RnD.amax(1)
    total_RD = _blocked_sum(vectors_RnD)
    if pooling == "sum" or n == 1:
        return total_RD
    divisor = torch.tensor(float(n), dtype=vectors_RnD.dtype)
    if pooling == "sqrtn":
        divisor = nearest_sqrt(divisor)
    return total_RD * divisor.reciprocal() if n < BLOCK + 2 else total_RD / divisor


def _blocked_sum(vectors_RnD: torch.Tensor) -> torch.Tensor:
    n = vectors_RnD.shape[1]
    if n < BLOCK + 2:
        return sequential_sum(vectors_RnD)
    first = {0: 8, 1: 9}.get(n % BLOCK, n % BLOCK)
    total_RD = sequential_sum(vectors_RnD[:, :first])
    for at in range(first, n, BLOCK):
        total_RD = total_RD + sequential_sum(vectors_RnD[:, at : at + BLOCK])
    return total_RD


def _weighted(vectors_RnD: torch.Tensor, weights_Rn: torch.Tensor, pooling: str) -> torch.Tensor:
    products_RnD = vectors_RnD * weights_Rn[:, :, None]
    if pooling == "max":
        return products_RnD.amax(1)
    if pooling == MARKS:
        return 0.0 + sequential_sum(torch.where(vectors_RnD == 0, 0.0, products_RnD))
    total_RD = sequential_sum(products_RnD)
    if pooling == "sum":
        return total_RD
    divisor_R1 = sequential_sum(weights_Rn[:, :, None] if pooling == "mean" else weights_Rn[:, :, None].square())
    if pooling == "sqrtn":
        divisor_R1 = nearest_sqrt(divisor_R1)
    return torch.where(divisor_R1 == 0, 0.0, total_RD / divisor_R1)


def sequential_sum(vectors_RnD: torch.Tensor) -> torch.Tensor:
    """The sum over n, one vector after the other."""
    total_RD = vectors_RnD[:, 0].clone()
    for k in range(1, vectors_RnD.shape[1]):
        total_RD += vectors_RnD[:, k]
    return total_RD
