"""`tile`: a tensor repeated along its dims."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Content, Facts, Indexed, Shape
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import (
    cycled,
    flat,
    grid,
    nonnegative,
    one,
    positive,
    repeated,
    same_rows,
    want_known,
    want_rank,
)
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Tile(GraphOp):
    """`out[i] = x[i % shape of x]`, dim k being `multiples[k]` times as long.

    Facts: content in the indexed form is kept where the repetition has that form too.
    """

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape; range kept; content where it is closed."""
        x, multiples = args
        want_rank("tile", multiples, 1, "multiples")
        if x.shape is None:
            return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi))
        if (
            multiples.shape is not None
            and multiples.shape[0] not in (len(x.shape),)
            and isinstance(multiples.shape[0], int)
        ):
            raise ShapeError("tile: not one multiple a dim", got=str(multiples.shape), want=f"({len(x.shape)},)")
        counts = multiples.values
        if counts is None:
            return one(facts.facts(x.dtype, tuple(fresh(k) for k in range(len(x.shape))), lo=x.lo, hi=x.hi))
        if all(c == 1 for c in counts):
            return one(x)
        shape = tuple(
            dims.mul(d, c) if nonnegative(c) else fresh(k) for k, (d, c) in enumerate(zip(x.shape, counts, strict=True))
        )
        rows = same_rows(x) if counts and counts[0] == 1 and all(map(positive, counts)) else {}
        content = _content(x, counts) if all(map(nonnegative, counts)) else None
        return one(facts.facts(x.dtype, shape, lo=x.lo, hi=x.hi, content=content, **rows))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        x, multiples = args
        source, counts = array(x), integers(multiples)
        if len(counts) != source.ndim or min(counts, default=0) < 0:
            raise GraphError("tile: not one multiple >= 0 a dim", got=f"{counts} for {source.shape}")
        return like(x, np.tile(source, counts))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.repeat."""
        x, multiples = args
        counts = multiples.facts.values
        rank = want_known("tile", x.facts)
        return (
            Lowered("aten.repeat.default", (x.value, counts))
            if counts is not None and len(counts) == len(rank)
            else None
        )


def _content(x: Facts, counts: tuple[Dim, ...]) -> Content | None:
    known = grid(x)
    if known is not None and all(isinstance(c, int) for c in counts):
        size = known.size * int(np.prod(counts, dtype=object)) if counts else known.size
        if size <= facts.MAX_CONTENT:
            return flat(np.tile(known, counts))
    form = facts.as_indexed(x)
    assert x.shape is not None
    shape: Shape = x.shape
    for axis in reversed(range(len(counts))):
        if form is None:
            return None
        if counts[axis] != 1:
            form = _along(form, shape, axis, counts[axis])
            shape = (*shape[:axis], dims.mul(shape[axis], counts[axis]), *shape[axis + 1 :])
    return form


def _along(form: Indexed, shape: Shape, axis: int, count: Dim) -> Indexed | None:
    """The content after one dim is repeated: the flat index is cut at that dim."""
    size = dims.mul(dims.prod(shape), count)
    if not form.terms:
        return form
    outer, inner = dims.prod(shape[:axis]), dims.prod(shape[axis:])
    if inner == 1:
        return repeated(form, count, size)
    return cycled(form, inner, size) if outer == 1 else None
