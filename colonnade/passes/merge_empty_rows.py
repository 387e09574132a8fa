"""`merge-empty-rows`: filling of empty rows and pooling become one `embedding_bag`."""

from __future__ import annotations

import numpy as np

from colonnade.core.facts import Order
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.embedding_bag import EmbeddingBag, Pooling
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.indices import column, column_of


class MergeEmptyRows(Rewrite):
    """`segment(table, filled values, rows of the filled indices)` is an embedding bag with a default row.

    Legal: rows are proven sorted before the filling (the filling would sort them, the bag does not); the default id is
    known and lies in the table; the row count is the sparse shape's, so that trailing empty rows are kept. Sum, mean
    and sqrtn of the one default row are that row.
    """

    roots = (SparseSegmentReduce,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Match the filling behind both the ids and the rows."""
        op = op_of(node)
        assert isinstance(op, SparseSegmentReduce)
        table, ids, rows, *_ = args_of(node)
        fill, output = item_of(ids)
        if not isinstance(fill.target, SparseFillEmptyRows):
            return Reject("ids do not come of a filling of empty rows: trailing empty rows would be lost")
        found = column_of(rows)
        if output != 1 or found is None or item_of(found[0]) != (fill, 0) or found[1] != 0:
            return Reject("rows are not column 0 of the same filling's indices")
        if op.with_num_segments:
            return Reject("the number of segments is given apart from the filling")
        return self._merged(editor, op.pooling, table, fill)

    def _merged(self, editor: Editor, pooling: Pooling, table: Node, fill: Node) -> Rewritten | Reject:
        indices, values, shape, default = args_of(fill)
        packed = facts_of(indices).packed
        if packed is None or packed.axis != 1 or packed.parts[0].order < Order.NONDECREASING:
            return Reject("rows are not proven sorted before the filling")
        known = facts_of(table)
        row = facts_of(default).integer
        if known.rank != 2 or known.shape is None or not isinstance(known.shape[0], int):
            return Reject("the table is not a matrix of known size")
        if row is None or not 0 <= row < known.shape[0]:
            return Reject(f"the default id {row} is not proven to lie in the table")
        zero = editor.constant(np.array(0, dtype=np.int32))
        count = editor.add(Gather(), shape, zero, zero)
        bag = editor.add(EmbeddingBag(pooling, row), table, values, column(editor, indices, 0), count)
        return Rewritten(bag, f"rows are proven sorted; an empty row gets row {row}, as the filling gave it")
