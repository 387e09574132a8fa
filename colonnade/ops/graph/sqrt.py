"""`sqrt`: the square root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.roots import nearest_sqrt
from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Sqrt(Unary, GraphOp):
    """`out = sqrt(x)`; NaN below 0."""

    aten: ClassVar[str] = "aten.sqrt.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return nearest_sqrt(x)
