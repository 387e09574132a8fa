"""`prod`: the product over axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Range
from colonnade.ops.graph._facts import axis_in
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
        """aten.prod over one axis after the other, the last first."""
        x, axes = args
        rank, named = x.facts.rank, axes.facts.ints
        if rank is None or not named:
            return super().lower(x, axes)
        dtype = (("dtype", x.facts.dtype),) if x.facts.dtype in facts.INTEGER else ()
        made: Any = x.value
        for axis in sorted({axis_in("prod", a, rank) for a in named}, reverse=True):
            made = Lowered("aten.prod.dim_int", (made, axis, self.keep_dims), dtype)
        assert isinstance(made, Lowered)
        return made

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """Axis by axis, by torch."""
        for k in over:
            x = x.prod(k, keepdim=True, dtype=x.dtype)
        return x if self.keep_dims else x.squeeze(over)
