"""`keep`: the elements for which a predicate holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.ragged import Ragged, offsets_of
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, RaggedOp, RowFacts


@dataclass(frozen=True)
class Keep(RaggedOp):
    """The elements of x, with their weights, where the second operand is true.

    Facts: lists stay, some of them empty.
    """

    arity: ClassVar[int] = 2
    most: ClassVar[int] = 2

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """Those of x."""
        x, predicate = args
        if predicate.dtype != "bool":
            raise ShapeError("keep takes a predicate", got=predicate.dtype, want="bool")
        return x

    def rows(self, *args: RowFacts) -> RowFacts:
        """Any number of elements. Errors: ShapeError where the operands lie otherwise than each other."""
        x, predicate = args
        if x != predicate:
            raise ShapeError("keep takes a predicate on the same elements", got=f"{predicate}", want=f"{x}")
        return RowFacts(x.levels)

    def apply(self, *args: Ragged) -> Ragged:
        """By a mask."""
        x, predicate = args
        kept = predicate.values
        assert isinstance(kept, torch.Tensor)
        counts = torch.bincount(x.bags()[kept], minlength=len(x.lengths))
        values = x.values[kept] if isinstance(x.values, torch.Tensor) else x.values[kept.numpy()]
        return Ragged(values, (*x.offsets[:-1], offsets_of(counts)), None if x.weights is None else x.weights[kept])
