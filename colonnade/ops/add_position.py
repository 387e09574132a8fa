"""`add_position`: an integer moved by its place in the batch row, so that each place has ids of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import ShapeError
from colonnade.ops.cast import BOUNDS
from colonnade.ops.op import ElementFacts, PositionOp, Value


@dataclass(frozen=True)
class AddPosition(PositionOp):
    """`out = x + stride * place` as int64; 0 <= place < width, the number of elements of a batch row.

    Errors: ShapeError where the result is not proven to fit int64.
    """

    stride: int
    width: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """x and the farthest move."""
        (x,) = args
        if x.dtype not in BOUNDS or self.width < 1:
            raise ShapeError("add_position takes integers and a width", got=f"{x.dtype}, {self.width}", want="int64, 1")
        least, most = BOUNDS[x.dtype]
        farthest = self.stride * (self.width - 1)
        lo = (least if x.lo is None else x.lo) + min(farthest, 0)
        hi = (most if x.hi is None else x.hi) + max(farthest, 0)
        if lo < -(2**63) or hi >= 2**63:
            raise ShapeError("add_position: the result may not fit int64", got=f"{lo} .. {hi}")
        return ElementFacts("int64", lo, hi)

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        x, places = args
        assert isinstance(x, torch.Tensor) and isinstance(places, torch.Tensor)
        if places.numel() and int(places.max()) >= self.width:
            raise ShapeError(
                "add_position: a row has more elements than its width",
                got=str(int(places.max()) + 1),
                want=str(self.width),
            )
        return x.long() + self.stride * places.long()
