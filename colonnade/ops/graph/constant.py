"""`constant`: a tensor known when the graph was made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.consts import Const
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class Constant(GraphOp):
    """Small data of the graph itself (shapes, axes, thresholds)."""

    value: Const

    def infer(self, *args: facts.Facts) -> Inferred:
        """dtype, shape, and for integers and bools range and content."""
        return Inferred((facts_of(self.value.array),))

    def reference(self, *args: Value) -> Value:
        """The value."""
        array = self.value.array
        return array if array.dtype == object else torch.from_numpy(array.copy())


def facts_of(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> facts.Facts:
    """Everything that is known of a known array."""
    if array.dtype == object:
        return facts.facts("string", array.shape)
    name = array.dtype.name
    if name not in facts.INTEGER and name != "bool":
        return facts.facts(name, array.shape)
    lo = int(array.min()) if array.size else None
    hi = int(array.max()) if array.size else None
    if array.size > facts.MAX_CONTENT:
        return facts.facts(name, array.shape, lo=lo, hi=hi)
    content = tuple(int(v) for v in array.reshape(-1))
    return facts.facts(name, array.shape, lo=lo, hi=hi, content=content)
