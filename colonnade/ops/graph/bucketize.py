"""`bucketize`: the number of boundaries that are <= x, for each element."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr
from colonnade.core.facts import Facts
from colonnade.ops import bucketize as column
from colonnade.ops.graph._facts import one
from colonnade.ops.op import ElementFacts, GraphOp, Inferred, Value


@dataclass(frozen=True)
class Bucketize(GraphOp):
    """`out = #{b in boundaries : b <= x}`, int32; the column op `bucketize` on every element."""

    boundaries: Const
    flush_denormals: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; 0 .. len(boundaries), both of which occur."""
        (x,) = args
        made = self._column().infer(ElementFacts(x.dtype))
        return one(facts.facts(made.dtype, x.shape, lo=made.lo, hi=made.hi))

    def reference(self, *args: Value) -> Value:
        """By the column op."""
        return self._column().reference(*args)

    def elementwise(self, *args: Expr) -> Expr:
        """The column op."""
        return Apply(self._column(), *args)

    def _column(self) -> column.Bucketize:
        return column.Bucketize(self.boundaries, self.flush_denormals)
