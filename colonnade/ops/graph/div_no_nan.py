"""`div_no_nan`: the quotient, 0 where the divisor is 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.ops.graph._elementwise import Binary
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class DivNoNan(Binary, GraphOp):
    """`out = a / b`; 0 where b is 0, whatever a is."""

    dtypes: ClassVar[frozenset[str]] = facts.FLOATING

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return torch.where(b == 0, torch.zeros((), dtype=a.dtype), a / b)

    def lower(self, *args: Operand) -> Lowered:
        """aten.where over the quotient."""
        a, b = args
        quotient = Lowered("aten.div.Tensor", (a.value, b.value))
        return Lowered("aten.where.ScalarSelf", (Lowered("aten.eq.Scalar", (b.value, 0)), 0.0, quotient))
