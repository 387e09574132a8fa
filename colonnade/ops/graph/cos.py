"""`cos`: the cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Cos(Unary, GraphOp):
    """`out = cos(x)`; NaN at infinity."""

    aten: ClassVar[str] = "aten.cos.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.cos()
