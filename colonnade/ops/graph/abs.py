"""`abs`: the magnitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import NUMBERS, Range, Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Abs(Unary, GraphOp):
    """`out = |x|`; the smallest integer stays itself."""

    dtypes: ClassVar[frozenset[str]] = NUMBERS
    aten: ClassVar[str] = "aten.abs.default"

    def on_range(self, lo: int, hi: int) -> Range:
        """From 0 where both signs are possible."""
        return (0 if lo <= 0 <= hi else min(abs(lo), abs(hi))), max(abs(lo), abs(hi))

    def on_dim(self, d: Dim) -> Dim | None:
        """The same on a known element."""
        return abs(d) if isinstance(d, int) else d if d.is_nonnegative else None

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.abs()
