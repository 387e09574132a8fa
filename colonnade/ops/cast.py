"""`cast`: the same number in another dtype."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value, structural, torch_dtype

BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
DTYPES = ("int32", "int64", "float32", "float64")


@dataclass(frozen=True)
class Cast(MapOp):
    """`out = x` as dtype `to`.

    Facts: int64 to int32 wraps; a float that does not fit an integer (NaN, out of range) gives the smallest integer.
    """

    to: str = structural()

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """Bounds are kept where they fit the new dtype: a narrowing cast is not the identity."""
        (x,) = args
        if x.dtype not in DTYPES or self.to not in DTYPES:
            raise ShapeError("cast takes numbers", got=f"{x.dtype} -> {self.to}", want=", ".join(DTYPES))
        if self.to not in BOUNDS:
            return ElementFacts(self.to)
        lo, hi = BOUNDS[self.to]
        source_lo, source_hi = BOUNDS.get(x.dtype, (None, None))
        x_lo = x.lo if x.lo is not None else source_lo
        x_hi = x.hi if x.hi is not None else source_hi
        if x_lo is not None and x_hi is not None and lo <= x_lo and x_hi <= hi:
            return x if self.to == x.dtype else ElementFacts(self.to, x_lo, x_hi)
        return ElementFacts(self.to)

    def reference(self, *args: Value) -> Value:
        """By torch, with the float overflow rule made explicit."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        target = torch_dtype(self.to)
        if x.is_floating_point() and self.to in BOUNDS:
            lo, hi = BOUNDS[self.to]
            wide = x.double()
            fits = (wide >= float(lo)) & (wide < float(hi) + (1 if self.to == "int32" else 0))
            return torch.where(fits, wide, 0.0).trunc().to(target).masked_fill(~fits, lo)
        return x.to(target)
