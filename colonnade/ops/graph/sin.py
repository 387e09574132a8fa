"""`sin`: the sine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Sin(Unary, GraphOp):
    """`out = sin(x)`; NaN at infinity."""

    aten: ClassVar[str] = "aten.sin.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.sin()
