"""`gather_nd`: slices of a tensor, by index tuples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.graph._values import array, check_range, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class GatherNd(GraphOp):
    """`out[i] = params[indices[i, 0], .., indices[i, r - 1]]`, r being the last dim of indices.

    Errors: GraphError on an index out of range, also a negative one.
    """

    def infer(self, *args: Facts) -> Inferred:
        """The range of params is kept."""
        params, indices = args
        want_dtype("gather_nd", indices, ("int32", "int64"), "indices")
        if () in (params.shape, indices.shape):
            raise ShapeError("gather_nd of or by a scalar", got="()", want="at least 1 dimension")
        depth = indices.shape[-1] if indices.shape is not None else None
        if params.shape is None or indices.shape is None or not isinstance(depth, int):
            return one(facts.facts(params.dtype, None, lo=params.lo, hi=params.hi))
        if depth > len(params.shape):
            raise ShapeError("gather_nd: more indices than dims", got=str(depth), want=f"at most {len(params.shape)}")
        shape = (*indices.shape[:-1], *params.shape[depth:])
        form = facts.as_indexed(params)
        content = form if form is not None and not form.terms else None
        return one(facts.facts(params.dtype, shape, lo=params.lo, hi=params.hi, content=content))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        params, indices = array(args[0]), array(args[1])
        if params.ndim == 0 or indices.ndim == 0 or indices.shape[-1] > params.ndim:
            raise GraphError("gather_nd: more indices than dims", got=str(indices.shape), want=f"at most {params.ndim}")
        depth = indices.shape[-1]
        if params.size == 0 and math.prod(indices.shape[:-1]) > 0:
            raise GraphError("gather_nd from an empty tensor", got=str(params.shape))
        for k in range(depth):
            check_range("gather_nd", indices[..., k], params.shape[k])
        shape = (*indices.shape[:-1], *params.shape[depth:])
        if depth == 0:
            return like(args[0], np.broadcast_to(params, shape).copy())
        taken = np.asarray(params[tuple(indices[..., k] for k in range(depth))], dtype=params.dtype)
        return like(args[0], taken.reshape(shape))

    def lower(self, *args: Operand) -> Lowered | None:
        """An op of our own, which refuses indices out of range."""
        params, indices = args
        if params.facts.dtype == "string" or params.facts.shape is None or indices.facts.shape is None:
            return None
        return Lowered("colonnade.gather_nd", (params.value, indices.value))
