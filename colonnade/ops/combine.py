"""`combine`: the elements of several operands, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core.ragged import Ragged, offsets_of
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, RaggedOp, RowFacts

MOST = 64


@dataclass(frozen=True)
class Combine(RaggedOp):
    """Each row: the elements of the first operand, then those of the second, and so on.

    Facts: where any operand has weights, elements of the others weigh 1.
    """

    arity: ClassVar[int] = 2
    most: ClassVar[int] = MOST

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """All ranges together."""
        if len({x.dtype for x in args}) != 1 or not 2 <= len(args) <= MOST:
            raise ShapeError(f"combine takes 2 to {MOST} operands of one dtype", got=", ".join(x.dtype for x in args))
        los, his = [x.lo for x in args], [x.hi for x in args]
        known_lo, known_hi = [v for v in los if v is not None], [v for v in his if v is not None]
        lo = min(known_lo) if len(known_lo) == len(los) else None
        return ElementFacts(args[0].dtype, lo, max(known_hi) if len(known_hi) == len(his) else None)

    def rows(self, *args: RowFacts) -> RowFacts:
        """The sum of all widths."""
        if any(x.levels != 1 for x in args):
            raise ShapeError("combine takes rows of elements", got="rows of lists")
        widths = [x.width for x in args if x.width is not None]
        return RowFacts(1, sum(widths) if len(widths) == len(args) else None)

    def apply(self, *args: Ragged) -> Ragged:
        """By a stable sort of all elements by row."""
        rows = torch.cat([x.bags() for x in args])
        order = torch.sort(rows, stable=True).indices
        if isinstance(args[0].values, torch.Tensor):
            values = torch.cat([x.values for x in args])[order]
        else:
            values = np.concatenate([x.values for x in args])[order.numpy()]
        weights = None
        if any(x.weights is not None for x in args):
            ones = [torch.ones(len(x.values), dtype=torch.float32) if x.weights is None else x.weights for x in args]
            weights = torch.cat(ones)[order]
        counts = torch.stack([x.lengths for x in args]).sum(0)
        return Ragged(values, (offsets_of(counts),), weights)
