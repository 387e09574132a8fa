"""`segment_sum`: rows added up by segment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._segment import reduced, rows_and_segments
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
        return reduced("segment_sum", data, ids, facts.FLOATING | facts.INTEGER)

    def reference(self, *args: Value) -> Value:
        """One row after the other."""
        data, ids, count = rows_and_segments("segment_sum", args)
        rows = torch.from_numpy(data.reshape(len(ids), math.prod(data.shape[1:])))
        made = torch.zeros(count, rows.shape[1], dtype=rows.dtype)
        made.index_add_(0, torch.from_numpy(ids.astype(np.int64)), rows)
        return made.reshape(count, *data.shape[1:])
