"""`neg`: the negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import NUMBERS, Range, Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Neg(Unary, GraphOp):
    """`out = -x`; the smallest integer stays itself."""

    dtypes: ClassVar[frozenset[str]] = NUMBERS
    aten: ClassVar[str] = "aten.neg.default"

    def on_range(self, lo: int, hi: int) -> Range:
        """The bounds mirrored."""
        return -hi, -lo

    def on_dim(self, d: Dim) -> Dim | None:
        """The same on a known element."""
        return dims.mul(-1, d)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return -x
