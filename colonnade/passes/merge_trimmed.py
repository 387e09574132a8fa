"""`merge-trimmed`: pooling of rows that end with the last one that has an element is one `embedding_bag`."""

from __future__ import annotations

import numpy as np

from colonnade.ir.graph import Node, args_of, item_of, op_of
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.indices import column_of


class MergeTrimmed(Rewrite):
    """`segment(table, ids, rows)` is an embedding bag over the rows up to the last one.

    Legal: rows are column 0 of the index matrix of a ragged input that is trimmed: they are sorted, and the last row
    has an element, so that there are as many segments as rows; rows between without one are zero in both.
    """

    roots = (SparseSegmentReduce,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Without a number of segments of its own."""
        op = op_of(node)
        assert isinstance(op, SparseSegmentReduce)
        table, ids, rows, *given = args_of(node)
        count = None if given else trimmed_rows(editor, rows)
        if count is None:
            return None
        bag = editor.add(EmbeddingBag(op.pooling), table, ids, rows, count)
        return Rewritten(bag, "rows are sorted and end with one that has an element")


def trimmed_rows(editor: Editor, rows: Node) -> Node | None:
    """The number of rows where they are those of all elements of a trimmed input."""
    found = column_of(rows)
    if found is None or found[1] != 0:
        return None
    base, output = item_of(found[0])
    op = op_of(base)
    if not isinstance(op, RaggedInput) or not op.trimmed or output != 0:
        return None
    zero = editor.constant(np.array(0, dtype=np.int32))
    return editor.add(Gather(), editor.item(base, op.num_outputs - 1), zero, zero)
