"""`fill_missing`: a number in the place of one that is missing."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import ShapeError
from colonnade.ops.affine import is_float32
from colonnade.ops.cast import BOUNDS
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class FillMissing(MapOp):
    """`out = fill if x is missing else x`; a float32 is missing where it is NaN, an integer where it is `missing`."""

    fill: int | float
    missing: int | None = None

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """x, and the fill."""
        (x,) = args
        if x.dtype == "float32" and self.missing is None and is_float32(self.fill):
            return ElementFacts("float32")
        lo, hi = BOUNDS.get(x.dtype, (1, 0))
        numbers = (self.fill, self.missing)
        if not all(isinstance(v, int) and lo <= v <= hi for v in numbers):
            raise ShapeError(
                "fill_missing takes float32 and a number, or integers and one that stands for none",
                got=f"{x.dtype}, {self.fill!r}, {self.missing!r}",
            )
        fill = int(self.fill)
        return ElementFacts(
            x.dtype, None if x.lo is None else min(x.lo, fill), None if x.hi is None else max(x.hi, fill)
        )

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        is_missing = torch.isnan(x) if self.missing is None else x == self.missing
        return torch.where(is_missing, torch.tensor(self.fill, dtype=x.dtype), x)
