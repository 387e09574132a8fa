"""`log`: the natural logarithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Log(Unary, GraphOp):
    """`out = ln x`; NaN below 0."""

    aten: ClassVar[str] = "aten.log.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.log()
