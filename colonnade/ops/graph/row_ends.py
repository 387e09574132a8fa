"""`row_ends`: how far each of the rows of differing lengths reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import one
from colonnade.ops.graph._places import flat_places, want_matrix
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class RowEnds(GraphOp):
    """`out[row] = 1 + the last place` of each row of `(indices, shape)`; 0 of one without elements.

    Shapes: the result is int64 `[rows]`.
    Errors: FeedError where an index lies outside the shape, or does not come after the one before.
    """

    def infer(self, *args: Facts) -> Inferred:
        """One number a row."""
        want_matrix("row_ends", *args)
        rows = args[1].values[0] if args[1].values else fresh(0)
        return one(facts.facts("int64", (rows,), lo=0))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        indices, shape = map(array, args)
        flat_places(indices, shape)
        made = np.zeros(int(shape[0]), np.int64)
        made[indices[:, 0]] = indices[:, 1] + 1  # the last of a row is its largest
        return torch.from_numpy(made)
