"""`row_marks`: which places of rows of differing lengths hold an element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import one
from colonnade.ops.graph._places import flat_places, flat_size, want_matrix
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class RowMarks(GraphOp):
    """`out[row * width + place] = 1` for each index of `(indices, shape)`; 0 elsewhere.

    width: that of the shape, or how many places of a row there are; elements behind are left out.
    Shapes: the result is int64 `[rows * width]`.
    Errors: FeedError where an index lies outside the shape, or does not come after the one before.
    """

    width: int | None = None

    def infer(self, *args: Facts) -> Inferred:
        """A vector of all places."""
        want_matrix("row_marks", *args)
        return one(facts.facts("int64", (flat_size(args[1], self.width),), lo=0, hi=1))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        places, _, size = flat_places(array(args[0]), array(args[1]), self.width)
        made = np.zeros(size, np.int64)
        made[places] = 1
        return torch.from_numpy(made)
