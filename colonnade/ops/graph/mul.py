"""`mul`: the product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.facts import Indexed
from colonnade.ops.graph._elementwise import Binary, Range, constant_of, products
from colonnade.ops.graph._facts import scale
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Mul(Binary, GraphOp):
    """`out = a * b`; integers wrap."""

    aten: ClassVar[str] = "aten.mul.Tensor"

    def on_range(self, a: tuple[int, int], b: tuple[int, int]) -> Range:
        """The extreme products of bounds."""
        return products(a, b)

    def on_dim(self, a: Dim, b: Dim) -> Dim:
        """The product."""
        return dims.mul(a, b)

    def on_indexed(self, a: Indexed, b: Indexed, size: Dim) -> Indexed | None:
        """Where one operand is the same everywhere."""
        factor = constant_of(a)
        if factor is not None:
            return scale(b, factor, size)
        factor = constant_of(b)
        return None if factor is None else scale(a, factor, size)

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return a * b
