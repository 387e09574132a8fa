"""`sign`: the sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import NUMBERS, Range, Unary
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Sign(Unary, GraphOp):
    """`out = -1, 0 or 1`; NaN stays NaN."""

    dtypes: ClassVar[frozenset[str]] = NUMBERS

    def on_range(self, lo: int, hi: int) -> Range:
        """The signs of the bounds."""
        return (lo > 0) - (lo < 0), (hi > 0) - (hi < 0)

    def on_dim(self, d: Dim) -> Dim | None:
        """The same on a known element."""
        return (d > 0) - (d < 0) if isinstance(d, int) else None

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch, which gives 0 for NaN."""
        return torch.where(x.isnan(), x, x.sign()) if x.is_floating_point() else x.sign()

    def lower(self, *args: Operand) -> Lowered:
        """aten.sign, with NaN kept."""
        (x,) = args
        sign = Lowered("aten.sign.default", (x.value,))
        if x.facts.dtype not in facts.FLOATING:
            return sign
        return Lowered("aten.where.self", (Lowered("aten.isnan.default", (x.value,)), x.value, sign))
