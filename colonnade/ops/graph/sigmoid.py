"""`sigmoid`: the logistic function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Sigmoid(Unary, GraphOp):
    """`out = 1 / (1 + e^-x)`."""

    aten: ClassVar[str] = "aten.sigmoid.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.sigmoid()
