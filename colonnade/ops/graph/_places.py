"""Rows of differing lengths as a matrix of places: what several graph ops want of their indices."""

from __future__ import annotations

import numpy as np

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.core.rows import rows_of_indices
from colonnade.ops.graph._facts import want_dtype, want_rank
from colonnade.ops.graph._values import Array
from colonnade.ops.op import fresh


def want_matrix(op: str, indices: Facts, shape: Facts) -> None:
    """Errors: ShapeError where the operands are no index matrix and dense shape."""
    want_dtype(op, indices, ("int64",), "indices")
    want_rank(op, indices, 2, "indices")
    want_dtype(op, shape, ("int64",), "shape")
    want_rank(op, shape, 1, "shape")


def flat_size(shape: Facts) -> Dim:
    """The number of places."""
    return dims.prod(shape.values) if shape.values is not None and len(shape.values) == 2 else fresh(0)


def flat_places(indices: Array, shape: Array) -> tuple[Array, int]:
    """Where each element lies among all places, row by row, and how many there are.

    Errors: FeedError where an index lies outside the shape, or does not come after the one before.
    """
    rows_of_indices(indices, shape, strict=True)
    rows, width = map(int, shape)
    return indices[:, 0] * width + indices[:, 1].astype(np.int64), rows * width
