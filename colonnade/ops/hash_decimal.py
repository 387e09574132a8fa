"""`hash_decimal`: the 64-bit hash of an integer's decimal text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.fingerprint import fingerprint64
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value, structural


@dataclass(frozen=True)
class HashDecimal(MapOp):
    """`out = hash(decimal text of x)`, for example of `-5`; the 64 bits kept in an int64."""

    function: str = structural(default="farm")

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        (x,) = args
        if x.dtype not in ("int32", "int64"):
            raise ShapeError("hash_decimal takes integers", got=x.dtype, want="int32, int64")
        if self.function != "farm":
            raise ShapeError("hash_decimal: no such hash", got=self.function, want="farm")
        return ElementFacts("int64")

    def reference(self, *args: Value) -> Value:
        """One integer at a time, in plain Python."""
        (x,) = args
        assert isinstance(x, torch.Tensor)
        hashes = [fingerprint64(str(v).encode()) for v in x.reshape(-1).tolist()]
        return torch.from_numpy(np.array(hashes, dtype=np.uint64).view(np.int64)).reshape(x.shape)
