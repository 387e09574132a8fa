"""`floor_div`: the quotient rounded down."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Binary, Range, no_zero
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class FloorDiv(Binary, GraphOp):
    """`out = floor(a / b)`.

    Errors: GraphError where an integer divisor is 0.
    """

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """Known for a positive divisor."""
        if b[0] <= 0:
            return None, None
        quotients = [x // y for x in a for y in b]
        return min(quotients), max(quotients)

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        return dims.floor_divide(a, b) if isinstance(b, int) and b > 0 else None

    def lower(self, *args: Operand) -> Lowered:
        """aten.floor_divide, of integers; a float's quotient is rounded otherwise there, and is cut down by itself."""
        a, b = args
        if a.facts.dtype in facts.INTEGER:
            return Lowered("aten.floor_divide.default", (a.value, b.value))
        return Lowered("aten.floor.default", (Lowered("aten.div.Tensor", (a.value, b.value)),))

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        no_zero(self.name, a, b)
        if a.is_floating_point():
            return (a / b).floor()
        return a.div(b, rounding_mode="floor")
