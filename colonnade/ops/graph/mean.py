"""`mean`: the mean over axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.errors import GraphError
from colonnade.ops.graph._elementwise import Range
from colonnade.ops.graph._reduce import Reduction
from colonnade.ops.op import GraphOp, Lowered, Operand


@dataclass(frozen=True)
class Mean(Reduction, GraphOp):
    """`out = sum of x over axes / number of summands`; NaN over nothing; integers are cut toward 0."""

    aten: ClassVar[str] = "aten.mean.dim"
    keep_dims: bool = False

    def on_range(self, x: tuple[int, int], counts: Sequence[Dim]) -> Range:
        """Unknown: the sum may wrap."""
        return None, None

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.mean, of floats."""
        x, axes = args
        return super().lower(x, axes) if x.facts.dtype in facts.FLOATING else None

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """By torch."""
        if x.is_floating_point():
            return x.mean(over, keepdim=self.keep_dims)
        count = dims.prod(x.shape[k] for k in over)
        if count == 0:
            raise GraphError("mean of no integers")
        return x.sum(over, keepdim=self.keep_dims, dtype=x.dtype).div(count, rounding_mode="trunc")
