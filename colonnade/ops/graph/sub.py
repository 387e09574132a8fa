"""`sub`: the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.facts import Indexed
from colonnade.ops.graph._elementwise import Binary, Range
from colonnade.ops.graph._facts import combine
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Sub(Binary, GraphOp):
    """`out = a - b`; integers wrap."""

    aten: ClassVar[str] = "aten.sub.Tensor"

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """The differences of opposite bounds."""
        return a[0] - b[1], a[1] - b[0]

    def on_dim(self, a: Dim, b: Dim) -> Dim:
        """The difference."""
        return dims.sub(a, b)

    def on_indexed(self, a: Indexed, b: Indexed, size: Dim) -> Indexed:
        """Term by term."""
        return combine(a, b, size, -1)

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return a - b
