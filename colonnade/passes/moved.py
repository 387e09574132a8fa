"""What is made of values, made anew of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from colonnade.ir.graph import Node, args_of, item_of, op_of
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.pad_rows import PadRows
from colonnade.ops.graph.segment_max import SegmentMax
from colonnade.ops.graph.segment_sum import SegmentSum
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.weighted_bag import WeightedBag
from colonnade.passes.base import Editor

CLOSING = (EmbeddingBag, PadRows, SegmentMax, SegmentSum, SparseSegmentReduce, SparseToDense, WeightedBag)
"""Ops behind which elements have no rows any more."""


class Moved:
    """Makes what is made of values anew of others."""

    def __init__(self, editor: Editor, leaves: Mapping[Node, Node]) -> None:
        self._editor = editor
        self._made = dict(leaves)
        self.cone = behind(leaves)

    def __call__(self, node: Node) -> Node:
        """The same of the others."""
        if node not in self.cone:
            return node
        if node not in self._made:
            base, output = item_of(node)
            if base is node:
                op = op_of(node)
                assert op is not None
                self._made[node] = self._editor.add(op, *map(self, args_of(node)))
            else:
                self._made[node] = self._editor.item(self(base), output)
        return self._made[node]


def behind(sources: Iterable[Node]) -> set[Node]:
    """What holds elements, or the rows of them, that come of these values."""
    stack, found = list(sources), set[Node]()
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if isinstance(node.target, CLOSING):
            continue
        for user in node.users:
            base, output = item_of(user)
            if base is user or not isinstance(base.target, SparseFillEmptyRows) or output < 2:
                stack.append(user)
    return found
