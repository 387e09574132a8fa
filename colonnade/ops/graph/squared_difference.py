"""`squared_difference`: the square of the difference."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Binary, Range
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class SquaredDifference(Binary, GraphOp):
    """`out = (a - b)^2`; integers wrap."""

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """From 0 where the operands can be equal."""
        lo, hi = a[0] - b[1], a[1] - b[0]
        return (0 if lo <= 0 <= hi else min(lo * lo, hi * hi)), max(lo * lo, hi * hi)

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        return dims.mul(dims.sub(a, b), dims.sub(a, b))

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return (a - b) * (a - b)

    def lower(self, *args: Operand) -> Lowered:
        """aten.square of the difference."""
        a, b = args
        return Lowered("aten.square.default", (Lowered("aten.sub.Tensor", (a.value, b.value)),))
