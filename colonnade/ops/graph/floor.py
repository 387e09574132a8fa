"""`floor`: the integer below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Floor(Unary, GraphOp):
    """`out = floor(x)`."""

    aten: ClassVar[str] = "aten.floor.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.floor()
