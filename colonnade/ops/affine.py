"""`affine`: a number scaled and moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class Affine(MapOp):
    """`out = x * scale + shift` in float32; the product is rounded before the sum. Both are float32."""

    scale: float
    shift: float = 0.0

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """float32."""
        (x,) = args
        if x.dtype != "float32" or not all(is_float32(v) for v in (self.scale, self.shift)):
            raise ShapeError(
                "affine takes float32, scaled and moved by float32", got=f"{x.dtype}, {self.scale}, {self.shift}"
            )
        return ElementFacts("float32")

    def reference(self, *args: Value) -> Value:
        """In numpy, which rounds twice."""
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.asarray(args[0]) * np.float32(self.scale) + np.float32(self.shift))


def is_float32(value: float) -> bool:
    """Whether a number is a float32, and no NaN."""
    with np.errstate(over="ignore"):
        return float(np.float32(value)) == value
