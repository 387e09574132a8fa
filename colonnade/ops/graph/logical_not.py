"""`logical_not`: whether it is false."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Range, Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class LogicalNot(Unary, GraphOp):
    """`out = not x`, bool."""

    dtypes: ClassVar[frozenset[str]] = frozenset({"bool"})
    aten: ClassVar[str] = "aten.logical_not.default"

    def on_range(self, lo: int, hi: int) -> Range:
        """Proven where the operand is."""
        return 1 - hi, 1 - lo

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return ~x
