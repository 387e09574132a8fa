"""`mirror_pad`: a tensor with a border of its own mirror image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import grid, one, want_dtype
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class MirrorPad(GraphOp):
    """`out = x` mirrored `paddings[k, 0]` elements before and `paddings[k, 1]` behind dim k.

    edge: whether the element at the edge is mirrored too.
    Errors: GraphError where dim k has fewer elements than that, or none at all without `edge`; the dense rest answers
    for an unknown dim of none that is not padded.
    """

    edge: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """Content of paddings to shape."""
        x, paddings = args
        want_dtype("mirror_pad", paddings, ("int32", "int64"), "paddings")
        if x.shape is None:
            return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi))
        known = grid(paddings)
        if known is None or not all(isinstance(d, int) for d in known.flat):
            return one(facts.facts(x.dtype, tuple(fresh(k) for k in range(len(x.shape))), lo=x.lo, hi=x.hi))
        if known.shape != (len(x.shape), 2) or min(known.flat, default=0) < 0:
            raise ShapeError("mirror_pad: not two numbers >= 0 a dim", got=str(known.tolist()))
        for d, most in zip(x.shape, known.max(1, initial=0), strict=True):
            if isinstance(d, int) and most > d - (not self.edge):
                raise ShapeError("mirror_pad: more than there is", got=f"{known.tolist()} of {x.shape}")
        sizes = tuple(dims.add(d, *pair) for d, pair in zip(x.shape, known.tolist(), strict=True))
        return one(facts.facts(x.dtype, sizes, lo=x.lo, hi=x.hi))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        x, paddings = args
        source, counts = array(x), integers(paddings)
        pairs = list(zip(counts[::2], counts[1::2], strict=True))
        if len(pairs) != source.ndim or min(counts, default=0) < 0:
            raise GraphError("mirror_pad: not two numbers >= 0 a dim", got=f"{counts} for {source.shape}")
        if any(max(pair) > d - (not self.edge) for pair, d in zip(pairs, source.shape, strict=True)):
            raise GraphError("mirror_pad: more than there is", got=f"{pairs} of {source.shape}")
        if source.size == 0:
            return like(x, np.zeros([d + sum(p) for d, p in zip(source.shape, pairs, strict=True)], source.dtype))
        return like(x, np.pad(source, pairs, mode="symmetric" if self.edge else "reflect") if pairs else source)

    def lower(self, *args: Operand) -> Lowered | None:
        """Flipped ends before and behind, dim by dim, of dims that are known."""
        x, paddings = args
        known, shape = grid(paddings.facts), x.facts.shape
        if known is None or shape is None:
            return None
        made: Any = x.value
        skip = int(not self.edge)
        for axis, (before, behind) in enumerate(known.tolist()):
            size = shape[axis]
            if (before, behind) == (0, 0):
                continue
            if not all(isinstance(d, int) for d in (before, behind, size)):
                return None
            last = size - skip
            spans = ((skip, skip + before), (0, size), (last - behind, last))
            parts = [Lowered("aten.slice.Tensor", (made, axis, *span)) for span in spans]
            first, middle, end = (parts[0], made, parts[2])
            flipped = [Lowered("aten.flip.default", (part, (axis,))) for part in (first, end)]
            made = Lowered("aten.cat.default", ((flipped[0], middle, flipped[1]), axis))
        return made if isinstance(made, Lowered) else Lowered("aten.alias.default", (made,))
