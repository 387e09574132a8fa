"""`dense_bincount`: how often each number occurs, in all or in each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._values import array, integer, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class DenseBincount(GraphOp):
    """`out[b, k] = sum of weights[b, t] where x[b, t] == k`, k < size, for `(x, size, weights)`; a vector has no rows.

    Weights without elements are all 1.   binary: 1 where k occurs, whatever the weights.
    Facts: numbers from `size` on count nowhere; a matrix of weights has the shape of x.
    Errors: GraphError on a negative number.
    """

    binary: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape."""
        x, size, weights = args
        want_dtype("dense_bincount", x, ("int32", "int64"), "x")
        want_dtype("dense_bincount", weights, ("int32", "int64", "float32", "float64"), "weights")
        want_rank("dense_bincount", size, 0, "size")
        if x.shape is None:
            return one(facts.facts(weights.dtype, None))
        if len(x.shape) not in (1, 2):
            raise ShapeError("dense_bincount takes a vector or a matrix", got=str(x.shape))
        width = size.values[0] if size.values else size.lo if size.lo is not None and size.lo == size.hi else fresh(0)
        equal: tuple[tuple[Dim, Dim], ...] = ()
        if len(x.shape) == 2 and weights.shape is not None and len(weights.shape) == 2 and weights.shape[1] != 0:
            equal = tuple(zip(x.shape, weights.shape, strict=True))
        return one(facts.facts(weights.dtype, (*x.shape[:-1], width)), equal)

    def reference(self, *args: Value) -> Value:
        """By numpy, one row at a time."""
        x, size, weights = array(args[0]), integer(args[1]), array(args[2])
        if size < 0 or (x.size and x.min() < 0):
            raise GraphError("dense_bincount: a negative number", got=str(min(size, *x.reshape(-1).tolist())))
        if weights.size and weights.shape != x.shape:
            raise GraphError("dense_bincount: weights of another shape", got=f"{weights.shape}", want=f"{x.shape}")
        factors = np.ones(x.shape, weights.dtype) if self.binary or not weights.size else weights
        rows = x if x.ndim == 2 else x.reshape(1, -1)
        made = np.zeros((len(rows), size), weights.dtype)
        for out, row, factor in zip(made, rows, factors.reshape(rows.shape), strict=True):
            known = row < size
            np.add.at(out, row[known], factor[known])
        made = np.minimum(made, 1).astype(weights.dtype) if self.binary else made
        return like(args[2], made if x.ndim == 2 else made[0])
