"""`relu`: what is above 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import NUMBERS, Range, Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Relu(Unary, GraphOp):
    """`out = max(x, 0)`; NaN stays NaN."""

    dtypes: ClassVar[frozenset[str]] = NUMBERS
    aten: ClassVar[str] = "aten.relu.default"

    def on_range(self, lo: int, hi: int) -> Range:
        """The bounds cut at 0."""
        return max(lo, 0), max(hi, 0)

    def on_dim(self, d: Dim) -> Dim | None:
        """The same on a known element."""
        return max(d, 0) if isinstance(d, int) else d if d.is_nonnegative else None

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.relu()
