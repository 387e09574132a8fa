"""`sum_rows`: rows added up by where splits say that a sum begins and ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import dims, facts
from colonnade.core.facts import Facts
from colonnade.core.rows import rows_of_splits
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class SumRows(GraphOp):
    """`out[s] = x[splits[s]] + .. + x[splits[s + 1] - 1]` of `(x, splits)`, in that order; 0 where there is none.

    Shapes: x `[N, ...]`, splits `[S + 1]`; the result is `[S, ...]`.
    Errors: FeedError where splits fall or do not begin at 0; GraphError where they do not end with x.
    """

    def infer(self, *args: Facts) -> Inferred:
        """A row for each sum."""
        x, splits = args
        want_dtype("sum_rows", x, ("float32",), "rows")
        want_dtype("sum_rows", splits, ("int64",), "splits")
        want_rank("sum_rows", splits, 1, "splits")
        if x.shape is None or splits.shape is None:
            return one(facts.facts(x.dtype, None))
        if not x.shape:
            raise ShapeError("sum_rows: x has no rows", got="()", want="at least 1 dimension")
        return one(facts.facts(x.dtype, (dims.sub(splits.shape[0], 1), *x.shape[1:])))

    def reference(self, *args: Value) -> Value:
        """One row after the other."""
        x, splits = map(array, args)
        rows = rows_of_splits(splits, trimmed=False)
        if rows.num_elements != len(x):
            raise GraphError("sum_rows: splits do not end with x", got=str(rows.num_elements), want=str(len(x)))
        made = torch.zeros(rows.num_rows, math.prod(x.shape[1:]), dtype=torch.float32)
        numbers = torch.from_numpy(np.repeat(np.arange(rows.num_rows), np.diff(rows.offsets)))
        made.index_add_(0, numbers, torch.from_numpy(np.ascontiguousarray(x).reshape(len(x), math.prod(x.shape[1:]))))
        return made.reshape(rows.num_rows, *x.shape[1:])

    def lower(self, *args: Operand) -> Lowered | None:
        """An op of our own: every request is held to the splits before."""
        x, splits = args
        return Lowered("colonnade.sum_rows", (x.value, splits.value))
