"""`square`: the square."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import NUMBERS, Range, Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Square(Unary, GraphOp):
    """`out = x * x`; integers wrap."""

    dtypes: ClassVar[frozenset[str]] = NUMBERS
    aten: ClassVar[str] = "aten.square.default"

    def on_range(self, lo: int, hi: int) -> Range:
        """From 0 where both signs are possible."""
        return (0 if lo <= 0 <= hi else min(lo * lo, hi * hi)), max(lo * lo, hi * hi)

    def on_dim(self, d: Dim) -> Dim | None:
        """The same on a known element."""
        return dims.mul(d, d)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x * x
