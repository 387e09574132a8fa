"""`add`: the sum."""

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
class Add(Binary, GraphOp):
    """`out = a + b`; integers wrap."""

    aten: ClassVar[str] = "aten.add.Tensor"

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """The sums of the bounds."""
        return a[0] + b[0], a[1] + b[1]

    def on_dim(self, a: Dim, b: Dim) -> Dim:
        """The sum."""
        return dims.add(a, b)

    def on_indexed(self, a: Indexed, b: Indexed, size: Dim) -> Indexed:
        """Term by term."""
        return combine(a, b, size)

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return a + b
