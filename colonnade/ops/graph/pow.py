"""`pow`: the power."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.errors import GraphError
from colonnade.ops.graph._elementwise import Binary
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Pow(Binary, GraphOp):
    """`out = a^b`; integers wrap.

    Errors: GraphError where an integer exponent is negative.
    """

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        small = isinstance(a, int) and isinstance(b, int) and 0 <= b <= 64
        return a**b if small else None

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.pow; it answers where an integer exponent is negative, so that one must be proven not to be."""
        a, b = args
        fine = a.facts.dtype in facts.FLOATING or (b.facts.lo is not None and b.facts.lo >= 0)
        return Lowered("aten.pow.Tensor_Tensor", (a.value, b.value)) if fine else None

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        if not b.is_floating_point() and a.numel() > 0 and bool((b < 0).any()):
            raise GraphError("pow: a negative integer exponent")
        return a.pow(b)
