"""`vocabulary`: the number that a list of keys gives each value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.consts import Const
from colonnade.core.fingerprint import fingerprint64
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value, structural


@dataclass(frozen=True)
class Vocabulary(MapOp):
    """`out = values[i] where keys[i] == x`; where no key is x: `default`, or `default + bucket(x)` of `num_oov`.

    keys: distinct strings or int64.   values: int64, one a key.
    function: what buckets are made by. `farm`: Fingerprint64 of a string's bytes, of an integer's decimal text, modulo
    `num_oov`; `floor_mod`: an integer itself, its remainder never negative.
    """

    keys: Const
    values: Const
    default: int
    num_oov: int = 0
    function: str = structural(default="farm")

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64 within the values and what stands for unknown keys."""
        (x,) = args
        keys, values = self.keys.array, self.values.array
        kind = "string" if keys.dtype == object else str(keys.dtype)
        if x.dtype != kind or kind not in ("string", "int64"):
            raise ShapeError("vocabulary takes what its keys are, strings or int64", got=x.dtype, want=kind)
        if values.dtype != np.int64 or values.shape != keys.shape or keys.ndim != 1:
            raise ShapeError("vocabulary: keys without int64 values", got=f"{keys.shape}, {values.dtype}{values.shape}")
        if self.function not in (("farm",) if kind == "string" else ("farm", "floor_mod")):
            raise ShapeError("vocabulary: no such buckets", got=f"{self.function} of {kind}", want="farm, floor_mod")
        last = self.default + max(self.num_oov - 1, 0)
        if not (self.num_oov >= 0 and self.default >= -(2**63) and last < 2**63):
            raise ShapeError("vocabulary: unknown keys have no int64", got=f"{self.default}, {self.num_oov}")
        known = [int(values.min()), int(values.max())] if len(values) else []
        return ElementFacts("int64", min([self.default, *known]), max([last, *known]))

    def reference(self, *args: Value) -> Value:
        """By a dict."""
        (x,) = args
        table = dict(zip(self.keys.array.tolist(), self.values.array.tolist(), strict=True))
        elements = x.reshape(-1).tolist()
        found = [table[e] if e in table else self._unknown(e) for e in elements]
        return torch.tensor(found, dtype=torch.int64).reshape(x.shape)

    def _unknown(self, element: bytes | int) -> int:
        if self.function == "floor_mod" and self.num_oov:
            return self.default + int(element) % self.num_oov
        text = element if isinstance(element, bytes) else str(element).encode()
        return self.default + (fingerprint64(text) % self.num_oov if self.num_oov else 0)
