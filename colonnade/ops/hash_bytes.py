"""`hash_bytes`: the 64-bit hash of a string."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.fingerprint import fingerprint64
from colonnade.core.murmur import murmur64
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value, structural

FUNCTIONS = {"farm": fingerprint64, "murmur": murmur64}


@dataclass(frozen=True)
class HashBytes(MapOp):
    """`out = hash(bytes of x)`, the 64 bits kept in an int64.

    function: `farm` (Fingerprint64) or `murmur` (MurmurHash64A, seed 0).   Source: FarmHash's farmhashna::Hash64.
    """

    function: str = structural(default="farm")

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        (x,) = args
        if x.dtype != "string":
            raise ShapeError("hash_bytes takes strings", got=x.dtype, want="string")
        if self.function not in FUNCTIONS:
            raise ShapeError("hash_bytes: no such hash", got=self.function, want=", ".join(FUNCTIONS))
        return ElementFacts("int64")

    def reference(self, *args: Value) -> Value:
        """One string at a time, in plain Python."""
        (x,) = args
        hashes = [FUNCTIONS[self.function](s) for s in np.asarray(x).reshape(-1)]
        return torch.from_numpy(np.array(hashes, dtype=np.uint64).view(np.int64)).reshape(x.shape)
