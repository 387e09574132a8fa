"""`join_hash`: one hash of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core.fingerprint import CAT
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class JoinHash(MapOp):
    """`out = hash of the hashes a and b, in order`, the 64 bits kept in an int64. Source: FingerprintCat64."""

    arity: ClassVar[int] = 2

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """int64, any value."""
        if any(x.dtype != "int64" for x in args):
            raise ShapeError("join_hash takes int64", got=", ".join(x.dtype for x in args), want="int64, int64")
        return ElementFacts("int64")

    def reference(self, *args: Value) -> Value:
        """In uint64."""
        a, b = (np.asarray(x).view(np.uint64) for x in args)
        return torch.from_numpy(joined(a, b).view(np.int64))


def joined(
    a: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], b: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Both words mixed, elementwise."""
    factor, shift = np.uint64(CAT), np.uint64(47)
    with np.errstate(over="ignore"):
        mixed = b * factor
        mixed = (mixed ^ (mixed >> shift)) * factor
        mixed = (a ^ factor ^ mixed) * factor
        mixed = (mixed ^ (mixed >> shift)) * factor
    return np.asarray(mixed ^ (mixed >> shift), np.uint64)
