"""`zeros_like`: zeros of the same shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts, Indexed
from colonnade.ops.graph._facts import BOUNDS, one
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class ZerosLike(GraphOp):
    """`out = 0` for every element of x; the empty string for strings."""

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; the content is 0."""
        (x,) = args
        if x.dtype not in BOUNDS:
            return one(facts.facts(x.dtype, x.shape))
        return one(facts.facts(x.dtype, x.shape, lo=0, hi=0, content=Indexed((), 0) if x.dtype != "bool" else None))

    def reference(self, *args: Value) -> Value:
        """By torch."""
        (x,) = args
        return torch.zeros_like(x) if isinstance(x, torch.Tensor) else np.full(x.shape, b"", dtype=object)

    def lower(self, *args: Operand) -> Lowered:
        """aten.zeros_like."""
        (x,) = args
        return Lowered("aten.zeros_like.default", (x.value,))
