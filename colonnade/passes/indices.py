"""Reading columns of index matrices: which matrix, which column."""

from __future__ import annotations

import numpy as np

from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.passes.base import Editor


def column_of(node: Node) -> tuple[Node, int] | None:
    """(matrix, k) where the vector is column k of a matrix, through casts that keep the values; else None."""
    while True:
        op = op_of(node)
        if isinstance(op, Cast):
            (inner,) = args_of(node)
            if not _keeps(inner, node):
                return None
            node = inner
        elif isinstance(op, Reshape | Squeeze) and facts_of(node).rank == 1:
            node = args_of(node)[0]
            return _sliced_column(node)
        elif isinstance(op, StridedSlice):
            return _strided_column(node, op)
        else:
            return None


def _keeps(inner: Node, outer: Node) -> bool:
    """Whether a cast of indices keeps every value: row and column numbers of tensors that exist fit 31 bits
    or are int64.
    """
    return facts_of(inner).dtype in ("int32", "int64") and facts_of(outer).dtype in ("int32", "int64")


def _strided_column(node: Node, op: StridedSlice) -> tuple[Node, int] | None:
    matrix, begin, _, strides = args_of(node)
    if facts_of(matrix).rank != 2 or op.new_axis_mask or op.ellipsis_mask:
        return None
    starts, steps = facts_of(begin).ints, facts_of(strides).ints
    if starts is None or steps is None or len(starts) != 2 or steps[0] != 1:
        return None
    whole_rows = bool(op.begin_mask & 1) and bool(op.end_mask & 1)
    if not whole_rows or op.shrink_axis_mask != 2 or starts[1] < 0:
        return None
    return matrix, starts[1]


def _sliced_column(node: Node) -> tuple[Node, int] | None:
    if not isinstance(node.target, Slice):
        return None
    matrix, begin, size = args_of(node)
    starts, sizes = facts_of(begin).ints, facts_of(size).ints
    if facts_of(matrix).rank == 2 and starts is not None and sizes == (-1, 1) and starts[0] == 0:
        return matrix, starts[1]
    return None


def column(editor: Editor, matrix: Node, k: int) -> Node:
    """A new node: column k of an index matrix."""
    begin = editor.constant(np.array([0, k], dtype=np.int32))
    end = editor.constant(np.array([0, k + 1], dtype=np.int32))
    steps = editor.constant(np.array([1, 1], dtype=np.int32))
    return editor.add(StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2), matrix, begin, end, steps)
