"""`drop-empty-selects`: zeros for empty rows are the embedding bag's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.weighted_bag import WeightedBag
from colonnade.ops.graph.zeros_like import ZerosLike
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.indices import column_of


class DropEmptySelects(Rewrite):
    """`select(row is empty, zeros, embedding_bag(default row))` is an embedding bag that gives zeros.

    Legal: the condition is the empty-row indicator of a filling of the very indices that the bag pools by, the same
    for every element of a row.
    """

    roots = (Select,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """Match indicator, zeros and bag."""
        cond, zeros, bag = args_of(node)
        op = op_of(bag)
        if not isinstance(op, EmbeddingBag | WeightedBag):
            return None
        if not _all_zero(zeros):
            return Reject("rows that are empty are not replaced by zeros")
        fill = _indicator(cond)
        if fill is None:
            return Reject("the condition is not the empty-row indicator of a filling, repeated along the row")
        rows = column_of(args_of(bag)[2])
        if rows is None or rows[0] is not args_of(fill)[0] or rows[1] != 0:
            return Reject("the indicator is of other indices than the bag's")
        if facts_of(bag).shape != facts_of(node).shape:
            return Reject(f"the bag has shape {facts_of(bag).shape}, the select {facts_of(node).shape}")
        masked = editor.add(replace(op, default_row=None), *args_of(bag))
        return Rewritten(masked, "exactly the rows without an id are replaced by zeros")


def _all_zero(node: Node) -> bool:
    op = op_of(node)
    if isinstance(op, ZerosLike):
        return True
    if isinstance(op, Fill):
        return _all_zero(args_of(node)[1])
    # -0.0 would differ from the bag's zeros in its sign.
    return isinstance(op, Constant) and not np.any(op.value.array) and not np.any(np.signbit(op.value.array))


def _indicator(cond: Node) -> Node | None:
    """The filling whose empty-row indicator `cond` repeats along rows: [rows, 1] or tiled to [rows, D]."""
    node = cond
    if isinstance(node.target, Tile):
        inner, multiples = args_of(node)
        times = facts_of(multiples).values
        if facts_of(inner).rank != 2 or times is None or times[0] != 1:
            return None
        node = inner
    shape = facts_of(node).shape
    if shape is None or len(shape) != 2 or shape[1] != 1:
        return None
    while isinstance(node.target, Reshape | ExpandDims):
        node = args_of(node)[0]
    fill, output = item_of(node)
    return fill if isinstance(fill.target, SparseFillEmptyRows) and output == 2 else None
