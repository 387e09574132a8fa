"""`expm1`: the exponential less 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Expm1(Unary, GraphOp):
    """`out = e^x - 1`."""

    aten: ClassVar[str] = "aten.expm1.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.expm1()
