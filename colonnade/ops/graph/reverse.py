"""`reverse`: a tensor back to front along dims."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import axis_in, flat, grid, one, want_rank
from colonnade.ops.graph._values import array, axis_of, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Reverse(GraphOp):
    """`out[.., i, ..] = x[.., n - 1 - i, ..]` along the axes that the second operand names."""

    def infer(self, *args: Facts) -> Inferred:
        """The shape and range are kept, and small content."""
        x, axes = args
        want_rank("reverse", axes, 1, "axes")
        if x.shape is None or axes.ints is None:
            return one(facts.facts(x.dtype, x.shape, lo=x.lo, hi=x.hi))
        over = tuple(axis_in("reverse", a, len(x.shape)) for a in axes.ints)
        if len(set(over)) != len(over):
            raise ShapeError("reverse: an axis named twice", got=str(axes.ints))
        known = grid(x)
        content = None if known is None else flat(np.flip(known, over))
        return one(facts.facts(x.dtype, x.shape, lo=x.lo, hi=x.hi, content=content))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        x, axes = args
        source = array(x)
        over = tuple(axis_of("reverse", a, source.ndim) for a in integers(axes))
        if len(set(over)) != len(over):
            raise GraphError("reverse: an axis named twice", got=str(over))
        return like(x, np.flip(source, over))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.flip."""
        x, axes = args
        return None if axes.facts.ints is None else Lowered("aten.flip.default", (x.value, axes.facts.ints))
