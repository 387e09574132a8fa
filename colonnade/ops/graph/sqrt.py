"""`sqrt`: the square root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.ops.graph._elementwise import Unary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Sqrt(Unary, GraphOp):
    """`out = sqrt(x)`; NaN below 0."""

    aten: ClassVar[str] = "aten.sqrt.default"

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """By numpy, which rounds each root to the nearest, as TensorFlow does: torch's vectors may not."""
        with np.errstate(invalid="ignore"):
            return torch.from_numpy(np.asarray(np.sqrt(x.numpy())))
