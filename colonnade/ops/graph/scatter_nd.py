"""`scatter_nd`: slices added into zeros, by index tuples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._values import array, check_range, integers, tensor
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class ScatterNd(GraphOp):
    """`out[indices[i]] += updates[i]` on zeros of the shape that the third operand holds.

    Errors: GraphError on an index out of range.
    """

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape."""
        indices, updates, shape = args
        want_dtype("scatter_nd", indices, ("int32", "int64"), "indices")
        want_dtype("scatter_nd", updates, NUMBERS, "updates")
        want_rank("scatter_nd", shape, 1, "the shape")
        made = shape.values
        if made is None and shape.shape is not None and isinstance(shape.shape[0], int):
            made = tuple(map(fresh, range(shape.shape[0])))
        return one(facts.facts(updates.dtype, made), _equal(indices, updates, made))

    def reference(self, *args: Value) -> Value:
        """By numpy's unbuffered addition."""
        indices, updates, shape = array(args[0]), array(args[1]), integers(args[2])
        depth = indices.shape[-1] if indices.ndim else 0
        wanted = (*indices.shape[:-1], *shape[depth:])
        if depth > len(shape) or updates.shape != wanted:
            raise GraphError("scatter_nd: updates of another shape", got=str(updates.shape), want=str(wanted))
        if indices.size and math.prod(shape) == 0:
            raise GraphError("scatter_nd: updates for an empty tensor", got=str(shape))
        for k in range(depth):
            check_range("scatter_nd", indices[..., k], shape[k])
        made = np.zeros(shape, dtype=updates.dtype)
        np.add.at(made, tuple(indices[..., k] for k in range(depth)), updates)
        return tensor(made)


def _equal(indices: Facts, updates: Facts, made: facts.Shape | None) -> list[tuple[Dim, Dim]]:
    """Updates are shaped as the indices without their last dim, then as the rest of the result."""
    if indices.shape is None or updates.shape is None or made is None or not indices.shape:
        return []
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        return []
    wanted = (*indices.shape[:-1], *made[depth:])
    return list(zip(wanted, updates.shape, strict=True)) if len(wanted) == len(updates.shape) else []
