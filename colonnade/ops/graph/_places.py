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


def flat_size(shape: Facts, width: int | None = None) -> Dim:
    """The number of places.   width: of each row, where it is not that of the shape."""
    if shape.values is None or len(shape.values) != 2:
        return fresh(0)
    return dims.prod(shape.values if width is None else (shape.values[0], width))


def flat_places(indices: Array, shape: Array, width: int | None = None) -> tuple[Array, Array, int]:
    """Where each element lies among all places, row by row, which elements these are, and how many places there are.

    width: how many places of each row there are, where they are not those of the shape; elements behind have none.
    Errors: FeedError where an index lies outside the shape, or does not come after the one before.
    """
    rows_of_indices(indices, shape, strict=True)
    rows, across = map(int, shape)
    across = across if width is None else width
    kept = np.flatnonzero(indices[:, 1] < across)
    return indices[kept, 0] * across + indices[kept, 1].astype(np.int64), kept, rows * across
