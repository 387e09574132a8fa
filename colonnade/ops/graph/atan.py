"""`atan`: the angle of a tangent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Atan(Unary, GraphOp):
    """`out = atan(x)`."""

    aten: ClassVar[str] = "aten.atan.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.atan()
