"""`logical_xor`: whether one is true and the other is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.ops.graph._elementwise import Binary, Range
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class LogicalXor(Binary, GraphOp):
    """`out = a differs from b`, bool, with broadcasting."""

    dtypes: ClassVar[frozenset[str]] = frozenset({"bool"})
    aten: ClassVar[str] = "aten.logical_xor.default"

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """Proven where the operands are."""
        return (a[0] ^ b[0], a[0] ^ b[0]) if a[0] == a[1] and b[0] == b[1] else (0, 1)

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return a ^ b
