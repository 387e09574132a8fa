"""`floor_mod`: the remainder of the quotient rounded down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Binary, Range, no_zero
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class FloorMod(Binary, GraphOp):
    """`out = a - floor(a / b) * b`, of the divisor's sign.

    Errors: GraphError where an integer divisor is 0.
    """

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """From 0 to below a positive divisor, whatever the dividend."""
        if b[0] <= 0:
            return None, None
        inside = a[0] >= 0 and a[1] < b[0]
        return a if inside else (0, b[1] - 1 if a[0] < 0 else min(a[1], b[1] - 1))

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        if isinstance(a, int) and isinstance(b, int) and b > 0:
            return a % b
        return 0 if b == 1 else None

    def lower(self, *args: Operand) -> Lowered:
        """aten.remainder, of integers; a float's is not exact there, and is an op of our own."""
        a, b = args
        whole = a.facts.dtype in facts.INTEGER
        return Lowered("aten.remainder.Tensor" if whole else "colonnade.floor_mod", (a.value, b.value))

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        no_zero(self.name, a, b)
        if not a.is_floating_point():
            return a.remainder(b)
        # torch's own fmod is not exact where the quotient is large.
        with np.errstate(invalid="ignore"):
            rest = torch.from_numpy(np.asarray(np.fmod(a.numpy(), b.numpy())))
        return torch.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)
