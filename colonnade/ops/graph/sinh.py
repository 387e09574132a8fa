"""`sinh`: the hyperbolic sine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Sinh(Unary, GraphOp):
    """`out = sinh(x)`."""

    aten: ClassVar[str] = "aten.sinh.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.sinh()
