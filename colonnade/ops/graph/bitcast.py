"""`bitcast`: the same bits in another dtype."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import one
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value

BITS = {"int32": 32, "float32": 32, "int64": 64, "float64": 64}


@dataclass(frozen=True)
class Bitcast(GraphOp):
    """`out = the bits of x` as dtype `to`, which is as wide."""

    to: str

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept."""
        (x,) = args
        if BITS.get(x.dtype) is None or BITS.get(x.dtype) != BITS.get(self.to):
            raise ShapeError("bitcast takes dtypes of one width", got=f"{x.dtype} -> {self.to}", want="32 or 64 bits")
        return one(facts.facts(self.to, x.shape))

    def reference(self, *args: Value) -> Value:
        """By numpy's views."""
        (x,) = args
        return like(x, np.array(array(x), order="C").view(self.to))

    def lower(self, *args: Operand) -> Lowered:
        """aten.view.dtype."""
        (x,) = args
        return Lowered("aten.view.dtype", (x.value,), (("dtype", self.to),))
