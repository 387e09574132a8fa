"""`upper_bound`: how many numbers of a sorted row are <= x, for each element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import one, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class UpperBound(GraphOp):
    """`out[r, j] = #{i : sorted[r, i] <= values[r, j]}` for `(sorted, values)`; NaN counts as larger than all.

    Facts: rows that are not sorted give an answer without a meaning, not an error.
    """

    out_type: str = "int32"

    def infer(self, *args: Facts) -> Inferred:
        """The shape of the values; both have one number of rows."""
        bounds, values = args
        want_dtype("upper_bound", bounds, NUMBERS, "the sorted rows")
        want_same_dtype("upper_bound", (bounds, values))
        want_rank("upper_bound", bounds, 2, "the sorted rows")
        want_rank("upper_bound", values, 2, "values")
        if bounds.shape is None or values.shape is None:
            return one(facts.facts(self.out_type, values.shape, lo=0))
        hi = bounds.shape[1] if isinstance(bounds.shape[1], int) else None
        return one(facts.facts(self.out_type, values.shape, lo=0, hi=hi), [(bounds.shape[0], values.shape[0])])

    def reference(self, *args: Value) -> Value:
        """By halving, as TensorFlow: where rows are not sorted, the path decides."""
        bounds, values = array(args[0]), array(args[1])
        if bounds.ndim != 2 or values.ndim != 2 or len(bounds) != len(values):
            raise GraphError("upper_bound: shapes that do not fit", got=f"{bounds.shape} and {values.shape}")
        made = [[_count(row, x) for x in wanted] for row, wanted in zip(bounds, values, strict=True)]
        return tensor(np.array(made, self.out_type).reshape(values.shape))


def _count(row: np.ndarray, x: np.generic) -> int:
    first, num = 0, len(row)
    while num > 0:
        half = num // 2
        if not x < row[first + half]:
            first, num = first + half + 1, num - half - 1
        else:
            num = half
    return first
