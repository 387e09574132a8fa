"""`softsign`: a smooth sign."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Softsign(Unary, GraphOp):
    """`out = x / (1 + |x|)`; NaN at infinity."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x / (x.abs() + 1)

    def lower(self, *args: Operand) -> Lowered:
        """aten.div."""
        (x,) = args
        below = Lowered("aten.add.Scalar", (Lowered("aten.abs.default", (x.value,)), 1))
        return Lowered("aten.div.Tensor", (x.value, below))
