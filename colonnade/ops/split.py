"""`split`: the tokens of a string."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, ExpandOp, Value


@dataclass(frozen=True)
class Split(ExpandOp):
    """The tokens between occurrences of a non-empty `separator`; the empty string has one token, the empty string.

    Facts: at least one token a string; tokens may be empty.
    """

    separator: bytes

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """Strings."""
        (x,) = args
        if x.dtype != "string" or not self.separator:
            raise ShapeError(
                "split takes strings and a separator", got=f"{x.dtype} by {self.separator!r}", want="string"
            )
        return ElementFacts("string")

    def expand(self, value: Value) -> tuple[Value, torch.Tensor]:
        """By `bytes.split`."""
        parts = [s.split(self.separator) for s in np.asarray(value).reshape(-1)]
        tokens = np.empty(sum(map(len, parts)), dtype=object)
        tokens[:] = [t for p in parts for t in p]
        return tokens, torch.tensor([len(p) for p in parts], dtype=torch.int64)
