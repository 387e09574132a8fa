"""`sparse_to_dense`: values at index tuples of a tensor that holds one value elsewhere."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph._facts import hull, one, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._values import array, check_range, integers, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class SparseToDense(GraphOp):
    """`out[indices[i]] = values[i]`, the default elsewhere, for `(indices, shape, values, default)`.

    validate: whether indices must strictly increase.
    Errors: GraphError on an index out of range, or rows of indices that do not increase.
    """

    validate: bool = True

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape."""
        indices, shape, values, default = args
        want_dtype("sparse_to_dense", indices, ("int32", "int64"), "indices")
        want_same_dtype("sparse_to_dense", (values, default))
        want_rank("sparse_to_dense", shape, 1, "the shape")
        want_rank("sparse_to_dense", default, 0, "the default")
        made = shape.values
        if made is None and shape.shape is not None and isinstance(shape.shape[0], int):
            made = tuple(map(fresh, range(shape.shape[0])))
        lo, hi = hull((values, default))
        return one(facts.facts(values.dtype, made, lo=lo, hi=hi))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        indices, values, default = array(args[0]), array(args[2]), array(args[3])
        shape = integers(args[1])
        if indices.ndim < 2:
            indices = indices.reshape(-1, 1)
        if indices.ndim != 2 or indices.shape[1] != len(shape) or values.shape not in ((), (len(indices),)):
            raise GraphError("sparse_to_dense: shapes that do not fit", got=f"{indices.shape}, {values.shape}, {shape}")
        if any(d < 0 for d in shape):
            raise GraphError("sparse_to_dense: a negative size", got=str(shape))
        for k, size in enumerate(shape):
            check_range("sparse_to_dense", indices[:, k], size)
        rows = [tuple(row) for row in indices.tolist()]
        if self.validate and any(a >= b for a, b in itertools.pairwise(rows)):
            raise GraphError("sparse_to_dense: indices that do not strictly increase", got=str(rows[:20]))
        made = np.empty(shape, dtype=values.dtype)
        made[...] = default
        made[tuple(indices.T)] = values
        return like(args[2], made)
