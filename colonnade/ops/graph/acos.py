"""`acos`: the angle of a cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Acos(Unary, GraphOp):
    """`out = acos(x)`; NaN outside -1 .. 1."""

    aten: ClassVar[str] = "aten.acos.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.acos()
