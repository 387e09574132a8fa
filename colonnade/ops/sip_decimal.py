"""`sip_decimal`: the keyed 64-bit hash of an integer's decimal text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.siphash import siphash64
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value
from colonnade.ops.sip_bytes import want_keys


@dataclass(frozen=True)
class SipDecimal(MapOp):
    """`out = SipHash-2-4 of the decimal text of x` under the key of two int64, the 64 bits kept in an int64."""

    key0: int
    key1: int

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        (x,) = args
        if x.dtype not in ("int32", "int64"):
            raise ShapeError("sip_decimal takes integers", got=x.dtype, want="int32, int64")
        want_keys(self.name, self.key0, self.key1)
        return ElementFacts("int64")

    def reference(self, *args: Value) -> Value:
        """One integer at a time, in plain Python."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        hashes = [siphash64(str(v).encode(), self.key0, self.key1) for v in x.reshape(-1).tolist()]
        return torch.from_numpy(np.array(hashes, dtype=np.uint64).view(np.int64)).reshape(x.shape)
