"""`weigh`: weights multiplied by a number for each element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.ragged import Ragged
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, RaggedOp, RowFacts


@dataclass(frozen=True)
class Weigh(RaggedOp):
    """The elements of x; `weight = weight of x (1 where it has none) * factor`. A predicate counts as 1 or 0."""

    arity: ClassVar[int] = 2
    most: ClassVar[int] = 2

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """Those of x."""
        x, factor = args
        if factor.dtype not in ("bool", "float32"):
            raise ShapeError("weigh takes float32 or a predicate", got=factor.dtype, want="float32, bool")
        return x

    def rows(self, *args: RowFacts) -> RowFacts:
        """Those of x. Errors: ShapeError where the operands lie otherwise than each other."""
        x, factor = args
        if x != factor:
            raise ShapeError("weigh takes a factor for each element", got=f"{factor}", want=f"{x}")
        return x

    def apply(self, *args: Ragged) -> Ragged:
        """Elementwise."""
        x, factor = args
        assert isinstance(factor.values, torch.Tensor)
        factors = factor.values.to(torch.float32)
        return Ragged(x.values, x.offsets, factors if x.weights is None else x.weights * factors)
