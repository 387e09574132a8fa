"""`clip`: a number brought into an interval."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import ShapeError
from colonnade.ops.affine import is_float32
from colonnade.ops.cast import BOUNDS
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class Clip(MapOp):
    """`out = least if x < least else most if x > most else x`; least <= most, of x's kind. Facts: NaN stays."""

    least: int | float
    most: int | float

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """The interval, cut to what x can be."""
        (x,) = args
        if not (self.least <= self.most and all(self._fits(bound, x.dtype) for bound in (self.least, self.most))):
            raise ShapeError(
                "clip takes integers between integers, float32 between float32", got=f"{x.dtype}, {self.least!r}, "
                f"{self.most!r}",
            )  # fmt: skip
        if x.dtype == "float32":
            return ElementFacts("float32")
        least, most = int(self.least), int(self.most)
        lo, hi = (least if x.lo is None else x.lo), (most if x.hi is None else x.hi)
        return ElementFacts(x.dtype, min(max(lo, least), most), max(min(hi, most), least))

    def _fits(self, bound: int | float, dtype: str) -> bool:
        if dtype == "float32":
            return is_float32(bound)
        lo, hi = BOUNDS.get(dtype, (1, 0))
        return isinstance(bound, int) and lo <= bound <= hi

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        least, most = (torch.tensor(bound, dtype=x.dtype) for bound in (self.least, self.most))
        return torch.where(x < least, least, torch.where(x > most, most, x))
