"""`bucketize`: the number of boundaries that are <= x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.consts import Const
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value

NUMERIC = ("int32", "int64", "float32", "float64")


@dataclass(frozen=True)
class Bucketize(MapOp):
    """`out = #{b in boundaries : b <= x}`.

    boundaries: float32, nondecreasing.   flush_denormals: denormal x and denormal boundaries count as signed zero.
    Facts: NaN and +inf give len(boundaries), -inf gives 0, -0.0 equals 0.0; the largest result, len(boundaries),
    occurs.
    Integers are first rounded to float32, as TensorFlow does; float32 and float64 are compared as they are.
    """

    boundaries: Const
    flush_denormals: bool = False

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int32 in 0 .. len(boundaries)."""
        (x,) = args
        if x.dtype not in NUMERIC:
            raise ShapeError("bucketize takes numbers", got=x.dtype, want=", ".join(NUMERIC))
        bounds = self.boundaries.array
        if bounds.dtype != np.float32 or np.isnan(bounds).any() or (bounds[:-1] > bounds[1:]).any():
            raise ShapeError("bucketize takes nondecreasing float32 boundaries", got=_fault(bounds))
        return ElementFacts("int32", 0, len(bounds))

    def reference(self, *args: Value) -> Value:
        """By numpy's binary search (right side)."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        wide = x.dtype == torch.float64
        values = x.numpy() if wide else x.numpy().astype(np.float32)
        bounds = self.boundaries.array
        if self.flush_denormals:
            values, bounds = flushed(values), flushed(bounds)
        bounds = bounds.astype(values.dtype)
        found = np.searchsorted(bounds, values, side="right")
        return torch.from_numpy(np.where(np.isnan(values), len(bounds), found).astype(np.int32))


def flushed(
    x: np.ndarray[tuple[int, ...], np.dtype[np.floating]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.floating]]:
    """The same values with float32 denormals replaced by zero (float64: its own denormals)."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.zeros_like(x), x)


def _fault(bounds: np.ndarray) -> str:
    """The dtype, and the first neighbours that are out of order."""
    wrong = np.flatnonzero(~(bounds[:-1] <= bounds[1:]))
    where = f": {bounds[wrong[0]]} before {bounds[wrong[0] + 1]}" if len(wrong) else ""
    return f"{bounds.dtype}[{len(bounds)}]{where}"
