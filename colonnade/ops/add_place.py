"""`add_place`: an integer moved by a place that a field says, so that each place has ids of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.errors import ShapeError
from colonnade.ops.add_position import AddPosition
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class AddPlace(MapOp):
    """`out = x + stride * place` as int64; a place counts as the nearest of 0 .. width - 1.

    Facts: it is `add_position` of elements that were chosen among those of a row.
    Errors: ShapeError where the result is not proven to fit int64.
    """

    stride: int
    width: int
    arity: ClassVar[int] = 2

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """x and the farthest move."""
        x, place = args
        if place.dtype != "int64":
            raise ShapeError("add_place takes int64 places", got=place.dtype, want="int64")
        return AddPosition(self.stride, self.width).infer(x)

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        x, place = args
        assert isinstance(x, torch.Tensor) and isinstance(place, torch.Tensor)
        return x.long() + self.stride * place.clamp(0, self.width - 1)
