"""`segment_max`: the largest of the rows of each segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._segment import reduced, rows_and_segments
from colonnade.ops.graph._values import tensor
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class SegmentMax(GraphOp):
    """`out[s] = max of data[k] over all k with segment_ids[k] == s`; a segment without rows is 0. Of integers.

    Facts: out has as many rows as the last segment id + 1.
    Errors: GraphError on segment ids that fall or are negative, and where there is not one a row.
    """

    def infer(self, *args: Facts) -> Inferred:
        """Content of the segment ids to shape."""
        data, ids = args
        return reduced("segment_max", data, ids, facts.INTEGER)

    def reference(self, *args: Value) -> Value:
        """One segment after the other."""
        data, ids, count = rows_and_segments("segment_max", args)
        made = np.zeros((count, *data.shape[1:]), dtype=data.dtype)
        for segment in np.unique(ids):
            made[segment] = data[ids == segment].max(axis=0)
        return tensor(made)
