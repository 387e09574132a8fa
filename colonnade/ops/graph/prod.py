"""`prod`: the product over axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Range
from colonnade.ops.graph._reduce import Reduction
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Prod(Reduction, GraphOp):
    """`out = product of x over axes`; 1 over nothing; integers wrap."""

    start: ClassVar[int | None] = 1
    keep_dims: bool = False

    def step(self, a: Dim, b: Dim) -> Dim:
        """The product."""
        return dims.mul(a, b)

    def on_range(self, x: tuple[int, int], counts: Sequence[Dim]) -> Range:
        """Unknown: it may wrap."""
        return None, None

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.prod over one axis."""
        x, axes = args
        if axes.facts.integer is None:
            return None
        dtype = (("dtype", x.facts.dtype),) if x.facts.dtype in facts.INTEGER else ()
        return Lowered("aten.prod.dim_int", (x.value, axes.facts.integer, self.keep_dims), dtype)

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """Axis by axis, by torch."""
        for k in over:
            x = x.prod(k, keepdim=True, dtype=x.dtype)
        return x if self.keep_dims else x.squeeze(over)
