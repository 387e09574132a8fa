"""`leaky_relu`: a slope below 0."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class LeakyRelu(Unary, GraphOp):
    """`out = x` above 0, `alpha * x` elsewhere."""

    alpha: float = 0.2

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return torch.where(x > 0, x, x * self.alpha)

    def lower(self, *args: Operand) -> Lowered:
        """aten.leaky_relu."""
        (x,) = args
        return Lowered("aten.leaky_relu.default", (x.value, self.alpha))
