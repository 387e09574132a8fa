"""`truncate_mod`: the remainder of the quotient cut toward 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Binary, Range, no_zero
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class TruncateMod(Binary, GraphOp):
    """`out = a - trunc(a / b) * b`, of the dividend's sign.

    Errors: GraphError where an integer divisor is 0.
    """

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """Below a positive divisor on either side of 0."""
        if b[0] <= 0:
            return None, None
        most = b[1] - 1
        return (0 if a[0] >= 0 else -min(most, -a[0])), (0 if a[1] <= 0 else min(most, a[1]))

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        return a % b if isinstance(a, int) and isinstance(b, int) and a >= 0 and b > 0 else None

    def lower(self, *args: Operand) -> Lowered:
        """aten.fmod of integers; of floats an op of our own that is exact."""
        a, b = args
        whole = a.facts.dtype in facts.INTEGER
        return Lowered("aten.fmod.Tensor" if whole else "colonnade.fmod", (a.value, b.value))

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch for integers, by numpy for floats: torch is not exact where the quotient is large."""
        no_zero(self.name, a, b)
        if not a.is_floating_point():
            return a.fmod(b)
        with np.errstate(invalid="ignore"):
            return torch.from_numpy(np.asarray(np.fmod(a.numpy(), b.numpy())))
