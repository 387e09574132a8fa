"""`is_nan`: whether it is no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Test
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class IsNan(Test, GraphOp):
    """`out = x is NaN`."""

    aten: ClassVar[str] = "aten.isnan.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return x.isnan()
