"""`replace_outside`: a default in the place of integers outside an interval."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import ShapeError
from colonnade.ops.cast import BOUNDS
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class ReplaceOutside(MapOp):
    """`out = x if lo <= x <= hi else default`. Facts: nothing lies in the interval where lo > hi."""

    lo: int
    hi: int
    default: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """The interval, cut to what x can be, and the default."""
        (x,) = args
        if x.dtype not in BOUNDS:
            raise ShapeError("replace_outside takes integers", got=x.dtype, want="int32, int64")
        least, most = BOUNDS[x.dtype]
        if not least <= self.default <= most:
            raise ShapeError(f"replace_outside: a default that is no {x.dtype}", got=str(self.default))
        lo = max(self.lo, least if x.lo is None else x.lo)
        hi = min(self.hi, most if x.hi is None else x.hi)
        if lo > hi:
            return ElementFacts(x.dtype, self.default, self.default)
        return ElementFacts(x.dtype, min(lo, self.default), max(hi, self.default))

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        lo, hi = max(self.lo, -(2**63)), min(self.hi, 2**63 - 1)
        if lo > hi:
            return torch.full_like(x, self.default)
        wide = x.long()  # a bound outside int32 would wrap
        return torch.where((wide >= lo) & (wide <= hi), x, torch.full_like(x, self.default))
