"""`round`: the nearest integer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Round(Unary, GraphOp):
    """`out = x` rounded, halves to even."""

    aten: ClassVar[str] = "aten.round.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.round()
