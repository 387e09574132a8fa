"""`max`: the largest over axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.dims import Dim
from colonnade.ops.graph._reduce import Reduction, extreme
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Max(Reduction, GraphOp):
    """`out = max of x over axes`; over nothing the smallest value of the dtype."""

    aten: ClassVar[str] = "aten.amax.default"
    keep_dims: bool = False

    def step(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else a if a == b else None

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """By torch."""
        return extreme(x, over, self.keep_dims, largest=True)
