"""`vocabulary`: the number that a list of keys gives each element."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr
from colonnade.core.facts import Facts
from colonnade.ops import vocabulary as column
from colonnade.ops.graph._facts import one
from colonnade.ops.op import ElementFacts, GraphOp, Inferred, Value, structural


@dataclass(frozen=True)
class Vocabulary(GraphOp):
    """`out = values[i] where keys[i] == x`, a default or a bucket elsewhere: the column op on every element."""

    keys: Const
    values: Const
    default: int
    num_oov: int = 0
    function: str = structural(default="farm")

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; the values and what stands for unknown keys."""
        (x,) = args
        made = self.column().infer(ElementFacts(x.dtype))
        return one(facts.facts(made.dtype, x.shape, lo=made.lo, hi=made.hi))

    def reference(self, *args: Value) -> Value:
        """By the column op."""
        return self.column().reference(*args)

    def elementwise(self, *args: Expr) -> Expr:
        """The column op."""
        return Apply(self.column(), *args)

    def column(self) -> column.Vocabulary:
        """The column op."""
        return column.Vocabulary(self.keys, self.values, self.default, self.num_oov, self.function)
