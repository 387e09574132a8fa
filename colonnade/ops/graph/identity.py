"""`identity`: the same tensor under another name."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.expr import Expr
from colonnade.ops.graph._facts import one
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class Identity(GraphOp):
    """`out = x`."""

    def infer(self, *args: facts.Facts) -> Inferred:
        """Everything that is known of the operand."""
        (x,) = args
        return one(x)

    def reference(self, *args: Value) -> Value:
        """The operand."""
        (x,) = args
        return x

    def elementwise(self, *args: Expr) -> Expr:
        """The operand."""
        (x,) = args
        return x
