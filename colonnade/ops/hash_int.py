"""`hash_int`: the 64-bit hash of an integer's eight bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.hash_bytes import FUNCTIONS
from colonnade.ops.op import ElementFacts, MapOp, Value, structural


@dataclass(frozen=True)
class HashInt(MapOp):
    """`out = hash(the eight bytes of x, the lowest first)`, kept in an int64; `function` as in hash_bytes."""

    function: str = structural(default="murmur")

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        (x,) = args
        if x.dtype != "int64" or self.function not in FUNCTIONS:
            raise ShapeError("hash_int takes int64", got=f"{x.dtype}, {self.function}", want=", ".join(FUNCTIONS))
        return ElementFacts("int64")

    def reference(self, *args: Value) -> Value:
        """One integer at a time, in plain Python."""
        (x,) = args
        words = np.asarray(x).reshape(-1).astype("<i8")
        hashes = [FUNCTIONS[self.function](word.tobytes()) for word in words]
        return torch.from_numpy(np.array(hashes, dtype=np.uint64).view(np.int64)).reshape(x.shape)
