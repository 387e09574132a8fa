"""`drop-filling`: filling of empty rows where every row is proven to have its entry."""

from __future__ import annotations

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Order
from colonnade.ir.graph import Node, args_of, facts_of
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class DropFilling(Rewrite):
    """`sparse_fill_empty_rows` gives its operands back where no row is empty and rows are sorted.

    Legal: the row indices are proven to be 0, 1, ..., rows - 1: each row exactly once, in order.
    """

    roots = (SparseFillEmptyRows,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Compare the row indices with iota over the rows."""
        indices, values, shape, _ = args_of(node)
        packed = facts_of(indices).packed
        rows = facts_of(shape).values
        if packed is None or packed.axis != 1 or rows is None:
            return Reject("nothing is known of the row indices or of the number of rows")
        first = packed.parts[0]
        if not facts.is_iota(first):
            order = {
                Order.NONE: "in no proven order",
                Order.NONDECREASING: "sorted",
                Order.STRICT: "at most one a row",
            }[first.order]
            return Reject(f"rows are not proven to occur exactly once each (they are {order}): a row may be empty")
        if first.shape is None or first.shape[0] != rows[0]:
            return Reject(f"{first.shape} entries for {rows[0]} rows: not proven equal")
        zero = editor.constant(np.array(0, dtype=np.int64))
        count = editor.add(Gather(), shape, zero, editor.constant(np.array(0, dtype=np.int32)))
        one_dim = editor.add(Pack(axis=0), count)
        none_empty = editor.add(Fill(), one_dim, editor.constant(np.array(False)))
        one = editor.constant(np.array(1, dtype=np.int64))
        reverse = editor.add(Range(), zero, count, one)
        proof = f"row indices are proven to be 0 .. {rows[0]} - 1: each row exactly once, in order"
        return Rewritten((indices, values, none_empty, reverse), proof)
