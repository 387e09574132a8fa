"""`pad`: a tensor with a border of one value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import grid, nonnegative, one, want_dtype
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Pad(GraphOp):
    """`out = x` with `paddings[k, 0]` elements of `value` before and `paddings[k, 1]` behind dim k.

    Errors: GraphError where one of them is negative.
    """

    value: float | int | bytes = 0

    def infer(self, *args: Facts) -> Inferred:
        """Content of paddings to shape."""
        x, paddings = args
        want_dtype("pad", paddings, ("int32", "int64"), "paddings")
        lo = None if x.lo is None or not isinstance(self.value, int) else min(x.lo, self.value)
        hi = None if x.hi is None or not isinstance(self.value, int) else max(x.hi, self.value)
        if x.shape is None:
            return one(facts.facts(x.dtype, None, lo=lo, hi=hi))
        pairs = _pairs(paddings, len(x.shape))
        if pairs is None:
            return one(facts.facts(x.dtype, tuple(fresh(k) for k in range(len(x.shape))), lo=lo, hi=hi))
        if any(isinstance(d, int) and d < 0 for pair in pairs for d in pair):
            raise ShapeError("pad by a negative number", got=str(pairs), want=">= 0")
        sizes = [
            dims.add(d, *pair) if all(map(nonnegative, pair)) else fresh(k)
            for k, (d, pair) in enumerate(zip(x.shape, pairs, strict=True))
        ]
        return one(facts.facts(x.dtype, tuple(sizes), lo=lo, hi=hi))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        x, paddings = args
        source, counts = array(x), integers(paddings)
        if len(counts) != 2 * source.ndim or min(counts, default=0) < 0:
            raise GraphError("pad: not two numbers >= 0 a dim", got=f"{counts} for {source.shape}")
        pairs = list(zip(counts[::2], counts[1::2], strict=True))
        return like(x, np.pad(source, pairs, constant_values=self.value) if source.ndim else source)

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.constant_pad_nd, which names the last dim first."""
        x, paddings = args
        rank = x.facts.rank
        pairs = None if rank is None else _pairs(paddings.facts, rank)
        if pairs is None or not all(nonnegative(d) for pair in pairs for d in pair) or isinstance(self.value, bytes):
            return None
        value = bool(self.value) if x.facts.dtype == "bool" else self.value
        if not pairs:
            return Lowered("aten.alias.default", (x.value,))
        return Lowered("aten.constant_pad_nd.default", (x.value, tuple(d for p in pairs[::-1] for d in p), value))


def _pairs(paddings: Facts, rank: int) -> list[tuple[Dim, Dim]] | None:
    """Before and behind each dim, where that is known. Errors: ShapeError where it is not two numbers a dim."""
    if paddings.shape is not None and paddings.shape != (rank, 2) and all(isinstance(d, int) for d in paddings.shape):
        raise ShapeError("pad: not two numbers a dim", got=str(paddings.shape), want=f"({rank}, 2)")
    known = grid(paddings)
    return None if known is None else [(row[0], row[1]) for row in known]
