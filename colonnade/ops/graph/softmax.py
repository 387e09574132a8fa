"""`softmax`: shares that add up to 1 along the last dim."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Softmax(GraphOp):
    """`out = e^x / sum of e^x over the last dim`; x has at least 1 dim."""

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept."""
        (x,) = args
        want_dtype("softmax", x, facts.FLOATING)
        if x.shape == ():
            raise ShapeError("softmax of a scalar", got="()", want="at least 1 dimension")
        return one(facts.facts(x.dtype, x.shape))

    def reference(self, *args: Value) -> Value:
        """By torch."""
        (x,) = args
        source = numbers(x, "softmax")
        if source.ndim == 0:
            raise GraphError("softmax of a scalar", got="()", want="at least 1 dimension")
        return source.softmax(-1)

    def lower(self, *args: Operand) -> Lowered:
        """aten._softmax."""
        (x,) = args
        return Lowered("aten._softmax.default", (x.value, -1, False))
