"""`ones_like`: ones of the same shape."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core import facts
from colonnade.core.facts import Facts, Indexed
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import BOUNDS, one, want_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class OnesLike(GraphOp):
    """`out = 1` for every element of x."""

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; the content is 1."""
        (x,) = args
        want_dtype("ones_like", x, NUMBERS | {"bool"})
        if x.dtype not in BOUNDS:
            return one(facts.facts(x.dtype, x.shape))
        return one(facts.facts(x.dtype, x.shape, lo=1, hi=1, content=Indexed((), 1) if x.dtype != "bool" else None))

    def reference(self, *args: Value) -> Value:
        """By torch."""
        (x,) = args
        return torch.ones_like(numbers(x, "ones_like"))

    def lower(self, *args: Operand) -> Lowered:
        """aten.ones_like."""
        (x,) = args
        return Lowered("aten.ones_like.default", (x.value,))
