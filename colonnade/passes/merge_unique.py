"""`merge-unique`: pooling over the rows of unique ids is pooling over the ids."""

from __future__ import annotations

from dataclasses import replace

from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.ops.graph.unique import Unique
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class MergeUnique(Rewrite):
    """`segment(gather(table, unique(ids)), inverse, rows)` is `segment(table, ids, rows)`.

    Legal: always; ids keep their order, so sums keep theirs.
    """

    roots = (SparseSegmentReduce,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Both operands must come of one `unique`."""
        data, indices, *rest = args_of(node)
        gather = op_of(data)
        if not isinstance(gather, Gather):
            return None
        table, ids, axis = args_of(data)
        unique, output = item_of(ids)
        inverse, inverse_output = item_of(indices)
        if not isinstance(unique.target, Unique) or output != 0 or gather.batch_dims:
            return None
        if inverse is not unique or inverse_output != 1:
            return Reject("the segment's indices are not the inverse of the same unique")
        if facts_of(axis).integer != 0:
            return Reject("the rows are gathered along another axis than 0")
        op = op_of(node)
        assert isinstance(op, SparseSegmentReduce)
        merged = editor.add(replace(op), table, args_of(unique)[0], *rest)
        return Rewritten(merged, "the inverse of unique maps each position back to its id, in order")
