"""`log1p`: the logarithm of one more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Log1p(Unary, GraphOp):
    """`out = ln(1 + x)`; NaN below -1."""

    aten: ClassVar[str] = "aten.log1p.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.log1p()
