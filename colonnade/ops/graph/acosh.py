"""`acosh`: the inverse of cosh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Acosh(Unary, GraphOp):
    """`out = acosh(x)`; NaN below 1."""

    aten: ClassVar[str] = "aten.acosh.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.acosh()
