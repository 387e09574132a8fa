"""`xlogy`: a number times the logarithm of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.ops.graph._elementwise import Binary
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Xlogy(Binary, GraphOp):
    """`out = a * log(b)`; 0 where a is 0, whatever b is."""

    dtypes: ClassVar[frozenset[str]] = facts.FLOATING

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return torch.where(a == 0, torch.zeros((), dtype=a.dtype), a * b.log())

    def lower(self, *args: Operand) -> Lowered:
        """aten.where over the product."""
        a, b = args
        product = Lowered("aten.mul.Tensor", (a.value, Lowered("aten.log.default", (b.value,))))
        return Lowered("aten.where.ScalarSelf", (Lowered("aten.eq.Scalar", (a.value, 0)), 0.0, product))
