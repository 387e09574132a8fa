"""`sparse_segment_reduce`: rows looked up and pooled by segment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.core.pooling import POOLINGS, pool
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._segment import INDEX, count_of, segments
from colonnade.ops.graph._values import array, check_range, integer
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class SparseSegmentReduce(GraphOp):
    """`out[s] = pooling of data[indices[k]] over all k with segment_ids[k] == s`; a segment without elements is 0.

    with_num_segments: a fourth operand gives the number of rows of out, else it is the last segment id + 1.
    Errors: GraphError on segment ids that fall, are negative or too large, and on an index out of range.
    """

    pooling: Literal["sum", "mean", "sqrtn"]
    with_num_segments: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """Content of the segment ids, or of the fourth operand, to shape."""
        data, indices, ids = args[:3]
        if self.pooling not in POOLINGS:
            raise ShapeError("sparse_segment_reduce: no such pooling", got=self.pooling, want=", ".join(POOLINGS))
        want_dtype("sparse_segment_reduce", data, facts.FLOATING, "data")
        for f, operand in ((indices, "indices"), (ids, "segment ids")):
            want_dtype("sparse_segment_reduce", f, INDEX, operand)
            want_rank("sparse_segment_reduce", f, 1, operand)
        equal = [(a.shape[0], b.shape[0]) for a, b in ((indices, ids),) if a.shape is not None and b.shape is not None]
        if data.shape is None:
            return one(facts.facts(data.dtype, None), equal)
        if not data.shape:
            raise ShapeError("sparse_segment_reduce: data has no rows", got="()", want="at least 1 dimension")
        if self.with_num_segments:
            count = args[3].values[0] if args[3].values else fresh(0)
        else:
            count = count_of(ids)
        return one(facts.facts(data.dtype, (count, *data.shape[1:])), equal)

    def reference(self, *args: Value) -> Value:
        """In the order of TensorFlow's kernel."""
        data, indices, ids = (array(v) for v in args[:3])
        if indices.shape != ids.shape:
            raise GraphError(
                "sparse_segment_reduce: indices and segment ids differ", got=f"{indices.shape} and {ids.shape}"
            )
        wanted = integer(args[3]) if self.with_num_segments else None
        if wanted is not None and wanted < 0:
            raise GraphError("sparse_segment_reduce: a negative number of segments", got=str(wanted), want=">= 0")
        count = segments("sparse_segment_reduce", ids, wanted)
        check_range("sparse_segment_reduce", indices, len(data))
        rows = torch.from_numpy(data[indices]).reshape(len(ids), math.prod(data.shape[1:]))
        made = pool(rows, torch.from_numpy(ids.astype(np.int64)), None, self.pooling, count)
        return made.reshape(count, *data.shape[1:])
