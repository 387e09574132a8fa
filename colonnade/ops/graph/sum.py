"""`sum`: the sum over axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.row_sums import MOST, row_sums
from colonnade.ops.graph._elementwise import Range
from colonnade.ops.graph._reduce import Reduction
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Sum(Reduction, GraphOp):
    """`out = sum of x over axes`; 0 over nothing; integers wrap."""

    aten: ClassVar[str] = "aten.sum.dim_IntList"
    start: ClassVar[int | None] = 0
    keep_dims: bool = False

    def step(self, a: Dim, b: Dim) -> Dim | None:
        """The same on known elements."""
        return dims.add(a, b)

    def on_range(self, x: tuple[int, int], counts: Sequence[Dim]) -> Range:
        """The bounds times the number of summands, where that is known."""
        count = dims.prod(counts)
        return (x[0] * count, x[1] * count) if isinstance(count, int) else (None, None)

    def aten_dtype(self, dtype: str) -> tuple[tuple[str, str], ...]:
        """Integers stay of their dtype."""
        return (("dtype", dtype),) if dtype in facts.INTEGER else ()

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """By torch; the sum over the last axis of floats in the order of TensorFlow's kernel."""
        if x.dtype == torch.float32 and over == (x.ndim - 1,) and 0 < x.shape[-1] <= MOST:
            made = torch.from_numpy(np.asarray(row_sums(x.numpy())))
            return made.unsqueeze(-1) if self.keep_dims else made
        return x.sum(over, keepdim=self.keep_dims, dtype=x.dtype)
