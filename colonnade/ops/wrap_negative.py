"""`wrap_negative`: negative numbers count from the end."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import ShapeError
from colonnade.ops.cast import BOUNDS
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class WrapNegative(MapOp):
    """`out = x + size if x < 0 else x`; size fits the dtype, so that no sum wraps."""

    size: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """What stays, and negative numbers moved."""
        (x,) = args
        if x.dtype not in BOUNDS or not 0 <= self.size <= BOUNDS[x.dtype][1]:
            raise ShapeError("wrap_negative takes integers and a size", got=f"{x.dtype}, {self.size}", want="int64")
        lo, hi = (bound if known is None else known for bound, known in zip(BOUNDS[x.dtype], (x.lo, x.hi), strict=True))
        if lo >= 0:
            return ElementFacts(x.dtype, lo, hi)
        if hi < 0:
            return ElementFacts(x.dtype, lo + self.size, hi + self.size)
        return ElementFacts(x.dtype, min(lo + self.size, 0), max(hi, self.size - 1))

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        return torch.where(x < 0, x + self.size, x)
