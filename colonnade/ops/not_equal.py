"""`not_equal`: a filter that drops one value (missing strings, -1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, FilterOp, Value


@dataclass(frozen=True)
class NotEqual(FilterOp):
    """Keeps x where `x != value`; `value` is bytes for strings, an int for integers."""

    value: bytes | int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """bool."""
        (x,) = args
        if (x.dtype == "string") != isinstance(self.value, bytes) or x.dtype.startswith("float"):
            raise ShapeError(
                "not_equal compares strings with bytes and integers with an int", got=f"{x.dtype} {self.value!r}"
            )
        return ElementFacts("bool", 0, 1)

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        (x,) = args
        if isinstance(x, torch.Tensor):
            if not -(2**63) <= int(self.value) < 2**63:
                return torch.ones(x.shape, dtype=torch.bool)
            return torch.ne(x.long(), int(self.value))  # a value outside int32 would wrap
        return torch.tensor([s != self.value for s in np.asarray(x).reshape(-1)], dtype=torch.bool)
