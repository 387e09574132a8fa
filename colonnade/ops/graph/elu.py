"""`elu`: the exponential linear unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Elu(Unary, GraphOp):
    """`out = x` from 0 on, `e^x - 1` below."""

    aten: ClassVar[str] = "aten.elu.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return torch.nn.functional.elu(x)
