"""`one_hot`: a new dim that marks each index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph._facts import axis_in, hull, nonnegative, one, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._values import array, axis_of, integer, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class OneHot(GraphOp):
    """`out[i, k] = on where indices[i] == k else off`, k < depth, the new dim at place `axis`, counted in the result.

    Facts: an index out of range marks nothing.
    """

    axis: int = -1

    def infer(self, *args: Facts) -> Inferred:
        """The depth is content to shape."""
        indices, depth, on, off = args
        want_dtype("one_hot", indices, ("uint8", "int8", "int32", "int64"), "indices")
        dtype = want_same_dtype("one_hot", (on, off))
        for f, operand in ((depth, "depth"), (on, "on"), (off, "off")):
            want_rank("one_hot", f, 0, operand)
        lo, hi = hull((on, off))
        if indices.shape is None:
            return one(facts.facts(dtype, None, lo=lo, hi=hi))
        at = axis_in("one_hot", self.axis, len(indices.shape) + 1)
        width = depth.values[0] if depth.values else fresh(0)
        return one(facts.facts(dtype, (*indices.shape[:at], width, *indices.shape[at:]), lo=lo, hi=hi))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        indices, on, off = array(args[0]), array(args[2]), array(args[3])
        depth = integer(args[1])
        if depth < 0:
            raise GraphError("one_hot: a negative depth", got=str(depth), want=">= 0")
        at = axis_of("one_hot", self.axis, indices.ndim + 1)
        hits = np.expand_dims(indices, -1) == np.arange(depth)
        return like(args[2], np.moveaxis(np.where(hits, on, off), -1, at))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.where over a comparison with 0, 1, ..., depth - 1."""
        indices, depth, on, off = args
        rank, width = indices.facts.rank, depth.facts.values
        if rank is None or width is None or not nonnegative(width[0]) or on.facts.dtype == "string":
            return None
        at = axis_in("one_hot", self.axis, rank + 1)
        places: Any = Lowered("aten.arange.default", (width[0],))
        if rank > at:
            places = Lowered("aten.reshape.default", (places, (width[0], *(1,) * (rank - at))))
        hits = Lowered("aten.eq.Tensor", (Lowered("aten.unsqueeze.default", (indices.value, at)), places))
        return Lowered("aten.where.self", (hits, on.value, off.value))
