"""`unsorted_segment_sum`: rows added up by segment, in any order of segments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._segment import INDEX
from colonnade.ops.graph._values import array, integer
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class UnsortedSegmentSum(GraphOp):
    """`out[s] = sum of data[k] over all k with segment_ids[k] == s`, s < num_segments; operands in that order.

    A negative segment id drops its row; a segment without rows is 0; integers wrap.
    Errors: GraphError on segment ids beyond the last segment, and where there is not one a row.
    """

    def infer(self, *args: Facts) -> Inferred:
        """A row for each segment."""
        data, ids, count = args
        want_dtype(self.name, data, facts.FLOATING | facts.INTEGER, "data")
        for each, operand, rank in ((ids, "segment ids", 1), (count, "number of segments", 0)):
            want_dtype(self.name, each, INDEX, operand)
            want_rank(self.name, each, rank, operand)
        if data.shape is None:
            return one(facts.facts(data.dtype, None))
        if not data.shape:
            raise ShapeError(f"{self.name}: data has no rows", got="()", want="at least 1 dimension")
        equal = ((data.shape[0], ids.shape[0]),) if ids.shape is not None else ()
        rows = count.values[0] if count.values else fresh(0)
        return one(facts.facts(data.dtype, (rows, *data.shape[1:])), equal)

    def reference(self, *args: Value) -> Value:
        """One row after the other."""
        data, ids, count = array(args[0]), array(args[1]).astype(np.int64), integer(args[2])
        if len(data) != len(ids):
            raise GraphError(f"{self.name}: rows and segment ids differ", got=f"{len(data)} and {len(ids)}")
        if count < 0 or (ids >= count).any():
            raise GraphError(f"{self.name}: segment ids out of range", got=str(ids.max(initial=0)), want=f"< {count}")
        rows = torch.from_numpy(data.reshape(len(ids), math.prod(data.shape[1:])))[torch.from_numpy(ids >= 0)]
        made = torch.zeros(count, rows.shape[1], dtype=rows.dtype)
        made.index_add_(0, torch.from_numpy(ids[ids >= 0]), rows)
        return made.reshape(count, *data.shape[1:])
