"""`at_most`: a filter on integers from above."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, FilterOp, Value


@dataclass(frozen=True)
class AtMost(FilterOp):
    """Keeps x where `x <= bound`."""

    bound: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """bool."""
        (x,) = args
        if x.dtype not in ("int32", "int64"):
            raise ShapeError("at_most takes integers", got=x.dtype, want="int32, int64")
        return ElementFacts("bool", 0, 1)

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        if not -(2**63) <= self.bound < 2**63:
            return torch.full(x.shape, self.bound > 0, dtype=torch.bool)
        return x.long() <= self.bound  # a bound outside int32 would wrap
