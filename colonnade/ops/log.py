"""`log`: the natural logarithm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.logarithm import log64
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class Log(MapOp):
    """`out = ln x`, in float64 by one formula, rounded to float32. Facts: -inf of 0, NaN below 0."""

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """float32."""
        (x,) = args
        if x.dtype != "float32":
            raise ShapeError("log takes float32", got=x.dtype, want="float32")
        return ElementFacts("float32")

    def reference(self, *args: Value) -> Value:
        """By `log64`."""
        return torch.from_numpy(log64(np.asarray(args[0])).astype(np.float32))
