"""`minimum`: the smaller."""

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
class Minimum(Binary, GraphOp):
    """`out = min(a, b)`; NaN where one is NaN."""

    aten: ClassVar[str] = "aten.minimum.default"

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """The smaller of the bounds."""
        return min(a[0], b[0]), min(a[1], b[1])

    def on_dim(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        if a == b:
            return a
        # The larger of two dims counts as nonnegative.
        known = nonnegative(a) or nonnegative(b)
        return dims.add(a, b, dims.mul(-1, dims.maximum(a, b))) if known else None

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return torch.minimum(a, b)
