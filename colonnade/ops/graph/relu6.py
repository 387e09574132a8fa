"""`relu6`: what lies between 0 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import NUMBERS, Range, Unary
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Relu6(Unary, GraphOp):
    """`out = min(max(x, 0), 6)`; NaN stays NaN."""

    dtypes: ClassVar[frozenset[str]] = NUMBERS

    def on_range(self, lo: int, hi: int) -> Range:
        """The bounds cut at 0 and 6."""
        return min(max(lo, 0), 6), min(max(hi, 0), 6)

    def on_dim(self, d: Dim) -> Dim | None:
        """The same on a known element."""
        return min(max(d, 0), 6) if isinstance(d, int) else None

    def lower(self, *args: Operand) -> Lowered:
        """aten.clamp."""
        (x,) = args
        return Lowered("aten.clamp.default", (x.value, 0, 6))

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.clamp(0, 6)
