"""`segment_sum`: rows added up by segment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._segment import segments
from colonnade.ops.graph._values import array
from colonnade.ops.graph.sparse_segment_reduce import INDEX, count_of
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class SegmentSum(GraphOp):
    """`out[s] = sum of data[k] over all k with segment_ids[k] == s`; a segment without rows is 0.

    Facts: out has as many rows as the last segment id + 1; integers wrap.
    Errors: GraphError on segment ids that fall or are negative, and where there is not one a row.
    """

    def infer(self, *args: Facts) -> Inferred:
        """Content of the segment ids to shape."""
        data, ids = args
        want_dtype("segment_sum", data, facts.FLOATING | facts.INTEGER, "data")
        want_dtype("segment_sum", ids, INDEX, "segment ids")
        want_rank("segment_sum", ids, 1, "segment ids")
        if data.shape is None:
            return one(facts.facts(data.dtype, None))
        if not data.shape:
            raise ShapeError("segment_sum: data has no rows", got="()", want="at least 1 dimension")
        equal = ((data.shape[0], ids.shape[0]),) if ids.shape is not None else ()
        return one(facts.facts(data.dtype, (count_of(ids), *data.shape[1:])), equal)

    def reference(self, *args: Value) -> Value:
        """One row after the other."""
        data, ids = (array(v) for v in args)
        if len(data) != len(ids):
            raise GraphError("segment_sum: rows and segment ids differ", got=f"{len(data)} and {len(ids)}")
        count = segments("segment_sum", ids, None)
        rows = torch.from_numpy(data.reshape(len(ids), math.prod(data.shape[1:])))
        made = torch.zeros(count, rows.shape[1], dtype=rows.dtype)
        made.index_add_(0, torch.from_numpy(ids.astype(np.int64)), rows)
        return made.reshape(count, *data.shape[1:])
