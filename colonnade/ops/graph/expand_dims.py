"""`expand_dims`: one more dim of size 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.expr import Expr
from colonnade.ops.graph._facts import axis_in, kept, one
from colonnade.ops.graph._values import array, axis_of, integer, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class ExpandDims(GraphOp):
    """`out = x` with a dim of size 1 put at place `dim`, counted in the result."""

    def infer(self, *args: facts.Facts) -> Inferred:
        """The flat content is kept."""
        x, dim = args
        at = dim.integer
        if x.shape is None or at is None:
            return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi))
        at = axis_in("expand_dims", at, len(x.shape) + 1)
        return one(kept(x, (*x.shape[:at], 1, *x.shape[at:])))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        x, dim = args
        source = array(x)
        return like(x, np.expand_dims(source, axis_of("expand_dims", integer(dim), source.ndim + 1)))

    def elementwise(self, *args: Expr) -> Expr | None:
        """The operand: no element changes or moves."""
        return args[0]

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.unsqueeze."""
        x, dim = args
        at = dim.facts.integer
        return None if at is None else Lowered("aten.unsqueeze.default", (x.value, at))
