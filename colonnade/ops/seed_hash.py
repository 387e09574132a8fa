"""`seed_hash`: a hash joined to one that is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.join_hash import joined
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class SeedHash(MapOp):
    """`out = join_hash(seed, x)`; the seed is an int64."""

    seed: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        (x,) = args
        if x.dtype != "int64" or not -(2**63) <= self.seed < 2**63:
            raise ShapeError("seed_hash takes int64 and such a seed", got=f"{x.dtype}, {self.seed}", want="int64")
        return ElementFacts("int64")

    def reference(self, *args: Value) -> Value:
        """In uint64."""
        (x,) = args
        seed = np.array([self.seed], np.int64).view(np.uint64)
        return torch.from_numpy(joined(seed, np.asarray(x).view(np.uint64)).view(np.int64))
