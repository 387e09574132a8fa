"""`softplus`: the smooth ramp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Softplus(Unary, GraphOp):
    """`out = ln(1 + e^x)`."""

    aten: ClassVar[str] = "aten.softplus.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return torch.nn.functional.softplus(x)
