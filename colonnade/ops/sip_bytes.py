"""`sip_bytes`: the keyed 64-bit hash of a string."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.siphash import siphash64
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class SipBytes(MapOp):
    """`out = SipHash-2-4 of the bytes of x` under the key of two int64, the 64 bits kept in an int64."""

    key0: int
    key1: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        (x,) = args
        if x.dtype != "string":
            raise ShapeError("sip_bytes takes strings", got=x.dtype, want="string")
        want_keys(self.name, self.key0, self.key1)
        return ElementFacts("int64")

    def reference(self, *args: Value) -> Value:
        """One string at a time, in plain Python."""
        (x,) = args
        hashes = [siphash64(s, self.key0, self.key1) for s in np.asarray(x).reshape(-1)]
        return torch.from_numpy(np.array(hashes, dtype=np.uint64).view(np.int64)).reshape(x.shape)


def want_keys(name: str, *keys: int) -> None:
    """Errors: ShapeError where a key is no int64."""
    if not all(-(2**63) <= key < 2**63 for key in keys):
        raise ShapeError(f"{name}: keys that are no int64", got=", ".join(map(str, keys)), want="int64, int64")
