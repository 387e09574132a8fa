"""`pad_rows`: rows of differing lengths, each with as many places as the dense shape has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import hull, one, want_rank, want_same_dtype
from colonnade.ops.graph._places import flat_places, flat_size, want_matrix
from colonnade.ops.graph._values import array, like
from colonnade.ops.graph.constant import facts_of
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class PadRows(GraphOp):
    """`out[row * width + place] = values[i]` for index i of `(indices, shape, values)`; `fill` elsewhere.

    fill: one value of the dtype of the values.   width: that of the shape, or how many places of a row there are;
    elements behind are left out.
    Shapes: the result is `[rows * width]`.
    Errors: FeedError where an index lies outside the shape, or does not come after the one before.
    """

    fill: Const
    width: int | None = None

    def __post_init__(self) -> None:
        if self.fill.array.size != 1:
            raise ShapeError("pad_rows: fills with one value", got=str(self.fill.array.shape), want="one value")

    def infer(self, *args: Facts) -> Inferred:
        """A vector of all places."""
        indices, shape, values = args
        want_matrix("pad_rows", indices, shape)
        want_rank("pad_rows", values, 1, "values")
        want_same_dtype("pad_rows", (values, facts_of(self.fill.array)))
        lo, hi = hull((values, facts_of(self.fill.array)))
        equal: tuple[tuple[Dim, Dim], ...] = ()
        if indices.shape is not None and values.shape is not None and indices.shape[0] != values.shape[0]:
            equal = ((indices.shape[0], values.shape[0]),)
        return one(facts.facts(values.dtype, (flat_size(shape, self.width),), lo=lo, hi=hi), equal)

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        places, kept, size = flat_places(array(args[0]), array(args[1]), self.width)
        values, count = array(args[2]), len(array(args[0]))
        if len(values) != count:
            raise ShapeError("pad_rows: numbers differ", got=str(len(values)), want=str(count))
        made = np.full(size, self.fill.array.reshape(()).item(), dtype=values.dtype)
        made[places] = values[kept]
        return like(args[2], made)
