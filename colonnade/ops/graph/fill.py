"""`fill`: one value everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts, Indexed
from colonnade.errors import GraphError
from colonnade.ops.graph._facts import one, want_rank
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Fill(GraphOp):
    """`out = value` for every element of a tensor of the shape that the first operand holds."""

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape; the content is the value."""
        shape, value = args
        want_rank("fill", shape, 1, "the shape")
        want_rank("fill", value, 0, "the value")
        made = shape.values
        if made is None and shape.shape is not None and isinstance(shape.shape[0], int):
            made = tuple(map(fresh, range(shape.shape[0])))
        content = Indexed((), value.values[0]) if value.values and value.dtype != "bool" else None
        return one(facts.facts(value.dtype, made, lo=value.lo, hi=value.hi, content=content))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        shape, value = integers(args[0]), array(args[1])
        if min(shape, default=0) < 0:
            raise GraphError("fill of a negative size", got=str(shape), want=">= 0")
        made = np.empty(shape, dtype=value.dtype)
        made[...] = value[()]
        return like(args[1], made)

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.expand of the value."""
        shape, value = args
        return None if shape.facts.values is None else Lowered("aten.expand.default", (value.value, shape.facts.values))
