"""`log_softmax`: the logarithm of shares that add up to 1 along the last dim."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class LogSoftmax(GraphOp):
    """`out = x - log(sum of e^x over the last dim)`; x has at least 1 dim."""

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept."""
        (x,) = args
        want_dtype("log_softmax", x, facts.FLOATING)
        if x.shape == ():
            raise ShapeError("log_softmax of a scalar", got="()", want="at least 1 dimension")
        return one(facts.facts(x.dtype, x.shape))

    def reference(self, *args: Value) -> Value:
        """By torch."""
        source = numbers(args[0], "log_softmax")
        if source.ndim == 0:
            raise GraphError("log_softmax of a scalar", got="()", want="at least 1 dimension")
        return source.log_softmax(-1)

    def lower(self, *args: Operand) -> Lowered:
        """aten._log_softmax."""
        (x,) = args
        return Lowered("aten._log_softmax.default", (x.value, -1, False))
