"""`min`: the smallest over axes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core.dims import Dim
from colonnade.ops.graph._reduce import Reduction, extreme, lower_extreme
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Min(Reduction, GraphOp):
    """`out = min of x over axes`; over nothing the largest value of the dtype."""

    keep_dims: bool = False

    def step(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else a if a == b else None

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """By torch."""
        return extreme(x, over, self.keep_dims, largest=False)

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.amin over known axes."""
        x, axes = args
        if axes.facts.ints is None or x.facts.shape is None or not axes.facts.ints:
            return super().lower(*args)
        return lower_extreme(x, axes.facts.ints, self.keep_dims, largest=False)
