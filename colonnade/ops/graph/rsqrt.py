"""`rsqrt`: one over the square root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Rsqrt(Unary, GraphOp):
    """`out = 1 / sqrt(x)`; NaN below 0."""

    aten: ClassVar[str] = "aten.rsqrt.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.rsqrt()
