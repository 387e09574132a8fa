"""`pool-single-rows`: pooling one row a segment is a gather."""

from __future__ import annotations

import numpy as np

from colonnade.core import facts
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class PoolSingleRows(Rewrite):
    """Sum, mean and sqrtn over exactly one row are that row.

    Legal: segment ids are proven to be 0, 1, ..., n - 1 for n indices: exactly one a row (a sparse operand may carry
    duplicates and is not that).
    """

    roots = (SparseSegmentReduce,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Compare the segment ids with iota."""
        data, indices, rows, *count = args_of(node)
        op = op_of(node)
        assert isinstance(op, SparseSegmentReduce)
        known = facts_of(rows)
        if not facts.is_iota(known):
            return Reject("rows are not proven to have exactly one id each")
        if facts_of(indices).shape != known.shape:
            return Reject("there are not proven to be as many ids as rows")
        if count and (facts_of(count[0]).values or (None,))[0] != (known.shape or (None,))[0]:
            return Reject("the number of rows is not proven to be the number of ids")
        zero = editor.constant(np.array(0, dtype=np.int32))
        gathered = editor.add(Gather(), data, indices, zero)
        return Rewritten(gathered, f"each row has exactly one id: {op.pooling} over one row is the row")
