"""`drop-guards`: a retain (gather by the indices of a mask) whose mask is proven all true."""

from __future__ import annotations

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Indexed, Term
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.reshape import Reshape
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten


class DropGuards(Rewrite):
    """Gather by 0, 1, ..., n - 1 over an axis of n rows gives the operand back.

    Legal: the indices are proven to be iota (for a guard: the mask's condition holds over the producer's whole range,
    in 64 bits, so `where` keeps every element), and their number is proven to be the axis' length.
    """

    roots = (Gather, GatherNd)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """By the kind of gather."""
        return _gather(node) if isinstance(node.target, Gather) else _gather_nd(node, editor)


def _gather(node: Node) -> Rewritten | Reject | None:
    params, indices, axis = args_of(node)
    op = op_of(node)
    assert isinstance(op, Gather)
    known, index = facts_of(params), facts_of(indices)
    if known.shape is None or index.rank != 1 or index.shape is None or op.batch_dims or index.ints is not None:
        return None
    where = facts_of(axis).integer
    if where is None or not facts.is_iota(index):
        return _unproven(indices)
    if known.shape[where] != index.shape[0]:
        return Reject(f"the guard keeps {index.shape[0]} rows of {known.shape[where]}: not proven equal")
    return Rewritten(
        params, f"the mask is proven all true: the indices are 0 .. {index.shape[0]} - 1, every row in order"
    )


def _unproven(indices: Node) -> Reject | None:
    """A reason where the indices come from a mask; other gathers are not guards."""
    node = indices
    while isinstance(node.target, Reshape):
        node = args_of(node)[0]
    op = op_of(node)
    if op is None or op.name != "where":
        return None
    mask = facts_of(args_of(node)[0])
    return Reject(f"the mask is not proven all true (its range is {mask.lo}..{mask.hi}): it stays as a filter")


def _gather_nd(node: Node, editor: Editor) -> Rewritten | Reject | None:
    params, indices = args_of(node)
    known, index = facts_of(params), facts_of(indices)
    if known.shape is None or index.packed is None or len(index.packed.parts) != len(known.shape):
        return None
    count = index.packed.parts[0].shape
    total = known.size
    if count is None or total is None or count[0] != total:
        return _unproven(indices)
    stride = total
    for dim, part in zip(known.shape, index.packed.parts, strict=True):
        stride = dims.div_exact(stride, dim) if stride is not None else None
        expected = None if stride is None else facts.indexed((Term(1, stride, dim),), 0, total)
        if not _is(part.content, expected):
            return Reject("the indices are not proven to enumerate every element in order")
    shape = editor.constant(np.array([-1], dtype=np.int32))
    return Rewritten(
        editor.add(Reshape(), params, shape), "the mask is proven all true: every element, in row-major order"
    )


def _is(content: object, expected: Indexed | None) -> bool:
    return expected is not None and content == expected
