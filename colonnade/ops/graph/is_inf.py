"""`is_inf`: whether it is infinite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Test
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class IsInf(Test, GraphOp):
    """`out = x is inf or -inf`."""

    aten: ClassVar[str] = "aten.isinf.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.isinf()
