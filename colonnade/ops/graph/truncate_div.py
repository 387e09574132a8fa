"""`truncate_div`: the quotient of integers cut toward 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Binary, Range, no_zero
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class TruncateDiv(Binary, GraphOp):
    """`out = a / b` without what lies behind the point.

    Errors: GraphError where a divisor is 0.
    """

    dtypes: ClassVar[frozenset[str]] = facts.INTEGER

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """Known for a positive divisor."""
        if b[0] <= 0:
            return None, None
        quotients = [_cut(x, y) for x in a for y in b]
        return min(quotients), max(quotients)

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        return _cut(a, b) if isinstance(a, int) and isinstance(b, int) and b > 0 else None

    def lower(self, *args: Operand) -> Lowered:
        """aten.div, cut."""
        a, b = args
        return Lowered("aten.div.Tensor_mode", (a.value, b.value), (("rounding_mode", "trunc"),))

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        no_zero(self.name, a, b)
        return a.div(b, rounding_mode="trunc")


def _cut(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)
