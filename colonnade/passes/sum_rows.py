"""`sum-rows`: what is added up by the outer splits of rows of rows is summed from split to split."""

from __future__ import annotations

from colonnade.core import dims
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.row_splits import RowSplits
from colonnade.ops.graph.sum_rows import SumRows as Sums
from colonnade.ops.graph.unsorted_segment_sum import UnsortedSegmentSum
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.repeats import splits_behind


class SumRows(Rewrite):
    """`unsorted_segment_sum(x, rows, count)`, rows made of splits that are an input, is `sum_rows(x, splits)`.

    Legal: the row numbers are proven to be those that the splits say, and count to be one less than there are splits;
    x has as many rows as every request tells by a size of its own, which the splits are held to end with.
    """

    roots = (UnsortedSegmentSum,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """What pooling has left."""
        x, rows, count = args_of(node)
        splits, shape = splits_behind(rows), facts_of(x).shape
        if splits is None or shape is None or facts_of(x).dtype != "float32":
            return None
        if not isinstance(splits.target, Placeholder):
            return Reject("sums by splits that are no input")
        known, total = facts_of(splits).shape, facts_of(count).values
        if known is None or total is None or total[0] != dims.sub(known[0], 1):
            return Reject("the number of sums is not proven to be one less than there are splits")
        elements = shape[0]
        if not dims.is_symbol(elements) or dims.from_data(elements):
            return Reject("the number of rows that are added up is no size that a request tells")
        made = _row_splits(editor, splits, str(elements))
        return Rewritten(editor.at(node).add(Sums(), x, made), "rows are proven to be those that the splits say")


def _row_splits(editor: Editor, splits: Node, elements: str) -> Node:
    """The splits, held to end with a size: one node for all sums over the same."""
    for user in splits.users:
        op = op_of(user)
        if isinstance(op, RowSplits) and op.elements == elements:
            return user
    number = sum(isinstance(node.target, RowSplits) for node in editor.graph.nodes())
    anchor = next(node for node in editor.graph.nodes() if not isinstance(node.target, Placeholder))
    return editor.at(anchor).add(RowSplits(f"s{number}", elements), splits)
