"""`atanh`: the inverse of tanh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Atanh(Unary, GraphOp):
    """`out = atanh(x)`; NaN outside -1 .. 1."""

    aten: ClassVar[str] = "aten.atanh.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.atanh()
