"""`pool-segments`: looked up rows that are added up by segment are pooled."""

from __future__ import annotations

import numpy as np

from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.facts import Order
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.unsorted_segment_sum import UnsortedSegmentSum
from colonnade.ops.graph.vocabulary import Vocabulary
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.extract_columns import is_table
from colonnade.passes.indices import column_of
from colonnade.passes.splat import shaped_as, splat


class PoolSegments(Rewrite):
    """`unsorted_segment_sum(table[ids], rows, count)` is an embedding bag; so is the number of ids of each segment.

    Legal: rows are proven to be sorted and not negative, as a bag takes them; what would drop a negative one is left.
    The number of ids is the sum of as many ones as there are rows of the table.
    """

    roots = (UnsortedSegmentSum,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Rows of a table, or as many ones."""
        data, rows, count = args_of(node)
        shaped = shaped_as(data)
        looked_up = _looked_up(shaped)
        if looked_up is None or (shaped is not data and not _is_one(data)):
            return None
        matrix = column_of(rows)
        known = facts_of(matrix[0]).packed if matrix is not None and matrix[1] == 0 else None
        row = known.parts[0] if known is not None and known.axis == 1 else facts_of(rows)
        if row.order < Order.NONDECREASING or row.lo is None or row.lo < 0:
            return Reject("rows of a sum by segment are not proven sorted and not negative")
        table, ids, width = looked_up
        if shaped is not data:
            none = Const(np.zeros(0, np.int64))
            wide = ids if facts_of(ids).dtype == "int64" else editor.add(Cast("int64"), ids)
            table, ids = editor.constant(np.ones((1, width), np.float32)), editor.add(Vocabulary(none, none, 0), wide)
        if matrix is not None:
            count = _said(editor, matrix[0], count)
        bag = editor.add(EmbeddingBag("sum"), table, ids, rows, count)
        return Rewritten(bag, "rows are proven sorted and not negative")


def _is_one(node: Node) -> bool:
    value = splat(node)
    return value is not None and value.dtype == np.float32 and value == 1


def _looked_up(node: Node) -> tuple[Node, Node, int] | None:
    """The table, the vector of ids and the table's width."""
    op = op_of(node)
    if not isinstance(op, Gather) or op.batch_dims or facts_of(node).dtype != "float32":
        return None
    table, ids, axis = args_of(node)
    shape = facts_of(table).shape
    if not is_table(table) or shape is None or not isinstance(shape[1], int):
        return None
    if facts_of(axis).integer != 0 or facts_of(ids).rank != 1 or facts_of(ids).dtype not in ("int32", "int64"):
        return None
    return table, ids, shape[1]


def _said(editor: Editor, matrix: Node, count: Node) -> Node:
    """The number of rows as the input's own dense shape has it, where it is one less than its splits."""
    base, output = item_of(matrix)
    op, values = op_of(base), facts_of(count).values
    if not isinstance(op, RaggedInput) or op.by == "indices" or op.trimmed or output != 0 or values is None:
        return count
    splits = facts_of(args_of(base)[0]).shape
    if splits is None or values[0] != dims.sub(splits[0], 1):
        return count
    zero = editor.constant(np.array(0, dtype=np.int32))
    return editor.add(Gather(), editor.item(base, op.num_outputs - 1), zero, zero)
