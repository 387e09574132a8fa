"""`logical_and`: whether both are true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Binary, Range
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class LogicalAnd(Binary, GraphOp):
    """`out = a and b`, bool, with broadcasting."""

    dtypes: ClassVar[frozenset[str]] = frozenset({"bool"})
    aten: ClassVar[str] = "aten.logical_and.default"

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """Proven where the operands are."""
        return min(a[0], b[0]), min(a[1], b[1])

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return a & b
