"""`greater`: a filter on floats from below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.bucketize import flushed
from colonnade.ops.op import ElementFacts, FilterOp, Value


@dataclass(frozen=True)
class Greater(FilterOp):
    """Keeps x where `x > bound`; NaN is dropped.   flush_denormals: a denormal x counts as zero."""

    bound: float
    flush_denormals: bool = False

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """bool. Facts: the bound is no NaN, and a float32."""
        (x,) = args
        if x.dtype != "float32" or float(np.float32(self.bound)) != self.bound:
            raise ShapeError("greater takes float32 and such a bound", got=f"{x.dtype} > {self.bound}", want="float32")
        return ElementFacts("bool", 0, 1)

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        (x,) = args
        values = np.asarray(x)
        return torch.from_numpy((flushed(values) if self.flush_denormals else values) > np.float32(self.bound))
