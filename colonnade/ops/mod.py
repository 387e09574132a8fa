"""`mod`: the unsigned remainder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class Mod(MapOp):
    """`out = uint64(x) % divisor`; 1 <= divisor < 2^63."""

    divisor: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64 in 0 .. divisor - 1."""
        (x,) = args
        if x.dtype != "int64" or not 1 <= self.divisor < 2**63:
            raise ShapeError("mod takes int64 and a positive divisor", got=f"{x.dtype} % {self.divisor}", want="int64")
        return ElementFacts("int64", 0, self.divisor - 1)

    def reference(self, *args: Value) -> Value:
        """In uint64."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        rest = np.asarray(x.numpy().view(np.uint64) % np.uint64(self.divisor))
        return torch.from_numpy(rest.view(np.int64))
