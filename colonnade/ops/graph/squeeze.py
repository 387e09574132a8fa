"""`squeeze`: dims of size 1 removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.expr import Expr
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import axis_in, kept, one
from colonnade.ops.graph._values import array, axis_of, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Squeeze(GraphOp):
    """`out = x` without the dims at places `dims`, which must be of size 1; none given: all of size 1."""

    dims: tuple[int, ...] = ()

    def infer(self, *args: facts.Facts) -> Inferred:
        """The flat content is kept; which dims are 1 must be known where none are named."""
        (x,) = args
        if x.shape is None or (not self.dims and not all(isinstance(d, int) for d in x.shape)):
            return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi))
        gone = self._gone(x.shape)
        bad = [d for k, d in enumerate(x.shape) if k in gone and isinstance(d, int) and d != 1]
        if bad:
            raise ShapeError("squeeze of a dim that is not 1", got=str(x.shape), want=f"1 at {sorted(gone)}")
        made = kept(x, tuple(d for k, d in enumerate(x.shape) if k not in gone))
        return one(made, ((x.shape[k], 1) for k in sorted(gone)))

    def _gone(self, shape: facts.Shape) -> set[int]:
        if self.dims:
            return {axis_in("squeeze", d, len(shape)) for d in self.dims}
        return {k for k, d in enumerate(shape) if d == 1}

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        (x,) = args
        source = array(x)
        gone = tuple({axis_of("squeeze", d, source.ndim) for d in self.dims})
        if any(source.shape[k] != 1 for k in gone):
            raise GraphError("squeeze of a dim that is not 1", got=str(source.shape), want=f"1 at {sorted(gone)}")
        return like(x, np.squeeze(source, gone if self.dims else None))

    def elementwise(self, *args: Expr) -> Expr | None:
        """The operand: no element changes or moves."""
        return args[0]

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.squeeze.dims."""
        (x,) = args
        if x.facts.shape is None or (not self.dims and not all(isinstance(d, int) for d in x.facts.shape)):
            return None
        return Lowered("aten.squeeze.dims", (x.value, tuple(sorted(self._gone(x.facts.shape)))))
