"""`maximum`: the larger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Binary, Range
from colonnade.ops.graph._facts import nonnegative
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Maximum(Binary, GraphOp):
    """`out = max(a, b)`; NaN where one is NaN."""

    aten: ClassVar[str] = "aten.maximum.default"

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """The larger of the bounds."""
        return max(a[0], b[0]), max(a[1], b[1])

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        # The larger of two dims counts as nonnegative.
        return dims.maximum(a, b) if nonnegative(a) or nonnegative(b) else None

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return torch.maximum(a, b)
