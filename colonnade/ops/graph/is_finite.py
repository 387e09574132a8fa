"""`is_finite`: whether it is a finite number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Test
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class IsFinite(Test, GraphOp):
    """`out = x is neither NaN nor infinite`."""

    aten: ClassVar[str] = "aten.isfinite.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.isfinite()
