"""`erfc`: what the error function leaves of 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Erfc(Unary, GraphOp):
    """`out = 1 - erf(x)`."""

    aten: ClassVar[str] = "aten.erfc.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.erfc()
