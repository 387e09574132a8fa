"""`broadcast_to`: a tensor spread over a larger shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_rank
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class BroadcastTo(GraphOp):
    """`out = x` repeated along dims of size 1, and along new leading dims, to the shape the second operand holds."""

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape."""
        x, shape = args
        want_rank("broadcast_to", shape, 1, "the shape")
        made = shape.values
        if made is None and shape.shape is not None and isinstance(shape.shape[0], int):
            made = tuple(map(fresh, range(shape.shape[0])))
        if made is not None and x.shape is not None and len(made) < len(x.shape):
            raise ShapeError("broadcast_to fewer dims", got=f"{x.shape} -> {made}")
        if made == x.shape:
            return one(x)
        form = facts.as_indexed(x)
        content = form if form is not None and not form.terms else None
        return one(facts.facts(x.dtype, made, lo=x.lo, hi=x.hi, content=content))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        source, shape = array(args[0]), integers(args[1])
        try:
            return like(args[0], np.broadcast_to(source, shape).copy())
        except ValueError as e:
            raise GraphError("broadcast_to: shapes that do not fit", got=f"{source.shape} -> {shape}") from e

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.expand."""
        x, shape = args
        return None if shape.facts.values is None else Lowered("aten.expand.default", (x.value, shape.facts.values))
