"""`one-hots`: multi-hot vectors are rows of an identity matrix, pooled."""

from __future__ import annotations

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Order, Term
from colonnade.core.identity import identity
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.logical_and import LogicalAnd
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.one_hot import OneHot
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.sum import Sum
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.indices import column
from colonnade.passes.splat import splat

WIDEST = 1024
"""Marks of a vector: its identity matrix, which a device holds in full, then has 4 MiB."""


class OneHots(Rewrite):
    """Counts of ids, and marks of one id a place, are an embedding bag on an identity matrix.

    Legal: marks are 1 and 0 in float32, the new axis is the last and the sum is over the places of a row; ids that mark
    nothing are dropped first; the index matrix that spreads ids over places is proven to fit its shape and to repeat
    nothing, so that no error is lost. Counts up to 2^24 are exact, whatever the order of the sum.
    """

    roots = (Sum, Reshape)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """A sum over places, or a row of all places side by side."""
        x = args_of(node)[0]
        if not isinstance(x.target, OneHot):
            return None
        depth = _depth(x)
        if isinstance(depth, Reject):
            return depth
        if isinstance(node.target, Sum):
            return _counts(node, x, depth, editor)
        return _marks(node, x, depth, editor)


def _depth(one_hot: Node) -> int | Reject:
    """The number of marks of a one-hot vector that is a row of the identity matrix."""
    indices, depth, on, off = args_of(one_hot)
    op = op_of(one_hot)
    assert isinstance(op, OneHot)
    known, rank, size = facts_of(one_hot), facts_of(indices).rank, facts_of(depth).integer
    marks = splat(on), splat(off)
    if (
        known.dtype != "float32"
        or any(m is None for m in marks)
        or [m.tobytes() for m in marks if m is not None]
        != [
            np.float32(1).tobytes(),
            np.float32(0).tobytes(),
        ]
    ):
        return Reject("the marks are not 1 and 0 in float32")
    if rank != 2 or op.axis not in (-1, 2):
        return Reject("the marks are not the last axis of a batch of places")
    if size is None or not 1 <= size <= WIDEST:
        return Reject(f"{size} marks a vector: an identity matrix of more than {WIDEST} rows is not made")
    return size


def _counts(node: Node, one_hot: Node, depth: int, editor: Editor) -> Rewritten | Reject:
    """`sum over places(one_hot(sparse_to_dense(ids)))`: how often each id occurs in a row."""
    op = op_of(node)
    assert isinstance(op, Sum)
    spread = args_of(one_hot)[0]
    if facts_of(args_of(node)[1]).ints not in ((1,), (-2,)) or op.keep_dims:
        return Reject("marks are not summed over the places of a row")
    if not isinstance(spread.target, SparseToDense):
        return Reject("marks are not those of sparse ids")
    indices, shape, ids, default = args_of(spread)
    missing = splat(default)
    if missing is None or 0 <= int(missing) < depth:
        return Reject("a place without an id is marked, too")
    reason = _unfit(indices, shape)
    if reason:
        return Reject(reason)
    if facts_of(ids).rank != 1:
        return Reject("the ids are no vector")
    kept = _inside(ids, indices, depth, editor)
    zero = editor.constant(np.array(0, dtype=np.int32))
    count = editor.add(Gather(), shape, zero, zero)
    table = editor.constant(identity(depth))
    bag = editor.add(EmbeddingBag("sum"), table, kept[0], column(editor, kept[1], 0), count)
    return Rewritten(bag, f"each id adds its row of the identity matrix of {depth}; others are dropped")


def _inside(ids: Node, indices: Node, depth: int, editor: Editor) -> tuple[Node, Node]:
    """The ids that mark something, and their index rows."""
    known = facts_of(ids)
    if known.lo is not None and known.hi is not None and known.lo >= 0 and known.hi < depth:
        return ids, indices
    low, high = (editor.constant(np.array(bound, dtype=known.dtype)) for bound in (0, depth))
    mask = editor.add(LogicalAnd(), editor.add(Compare("ge"), ids, low), editor.add(Compare("lt"), ids, high))
    flat = editor.constant(np.array([-1], dtype=np.int32))
    keep = editor.add(Reshape(), editor.add(Where(), mask), flat)
    zero = editor.constant(np.array(0, dtype=np.int32))
    return editor.add(Gather(), ids, keep, zero), editor.add(Gather(), indices, keep, zero)


def _unfit(indices: Node, shape: Node) -> str:
    """Why an index matrix is not proven to lie in a shape, every row after the one before; empty where it is."""
    (base, output), (other, place) = item_of(indices), item_of(shape)
    op = op_of(base)
    if isinstance(op, StringSplit | SparseCross) and output == 0 and other is base and place == 2:
        return ""
    if isinstance(op, ParseExample) and other is base and op.place(output)[1] == "indices":
        same = op.place(place) == (op.place(output)[0], "shape")
        return "" if same else "ids of one feature are spread over the shape of another"
    if isinstance(op, RaggedInput) and (output, place) == (0, op.num_outputs - 1) and other is base:
        return "" if facts_of(indices).distinct else "an id may stand in a place twice"
    sizes = facts_of(shape).values
    if isinstance(op, Where):
        same = sizes is not None and sizes == facts_of(args_of(base)[0]).shape
        return "" if same else "ids of a mask are not proven to be spread over the mask's own shape"
    known = facts_of(indices)
    if known.packed is None or sizes is None or known.packed.axis != 1 or len(known.packed.parts) != len(sizes):
        return "the places of ids are not known"
    total = dims.prod(sizes)
    stride: dims.Dim | None = total
    for size, part in zip(sizes, known.packed.parts, strict=True):
        stride = None if stride is None else dims.div_exact(stride, size)
        expected = None if stride is None else facts.indexed((Term(1, stride, size),), 0, total)
        if part.shape != (total,) or expected is None or facts.as_indexed(part) != expected:
            return "the places of ids are not proven to be all places in order"
    return "" if known.packed.parts[0].order >= Order.NONDECREASING else "the rows of ids are not proven sorted"


def _marks(node: Node, one_hot: Node, depth: int, editor: Editor) -> Rewritten | Reject:
    """`reshape(one_hot(ids), [rows, places * depth])`: the marks of a row's places side by side."""
    ids = args_of(one_hot)[0]
    known = facts_of(ids)
    assert known.shape is not None
    rows, places = known.shape
    if not isinstance(places, int) or facts_of(node).shape != (rows, places * depth):
        return Reject(f"the marks of a row are not side by side: {facts_of(node).shape}")
    if known.lo is None or known.hi is None or known.lo < 0 or known.hi >= depth:
        return Reject("an id may mark nothing, and its row keeps its place")
    if places < 1 or places * depth > WIDEST:
        return Reject(f"{places * depth} marks a row: an identity matrix of more than {WIDEST} rows is not made")
    flat = editor.add(Reshape(), ids, editor.constant(np.array([-1], dtype=np.int32)))
    zero, one = (editor.constant(np.array(value, dtype=np.int32)) for value in (0, 1))
    count = editor.add(Gather(), editor.add(Shape("int32"), ids), zero, zero)
    numbers = editor.add(ExpandDims(), editor.add(Range(), zero, count, one), one)
    spread = editor.add(Tile(), numbers, editor.constant(np.array([1, places], dtype=np.int32)))
    row = editor.add(Reshape(), spread, editor.constant(np.array([-1], dtype=np.int32)))
    if places > 1:
        flat = _moved(flat, count, places, depth, editor)
    bag = editor.add(EmbeddingBag("sum"), editor.constant(identity(places * depth)), flat, row, count)
    return Rewritten(bag, f"each id adds its row of the identity matrix of {places * depth}")


def _moved(ids: Node, count: Node, places: int, depth: int, editor: Editor) -> Node:
    """Ids that begin anew at each place."""
    dtype = facts_of(ids).dtype
    starts = editor.constant(np.arange(places, dtype=np.int32))
    one_dim = editor.add(Reshape(), count, editor.constant(np.array([1], dtype=np.int32)))
    moves = editor.add(Mul(), editor.add(Tile(), starts, one_dim), editor.constant(np.array(depth, dtype=np.int32)))
    return editor.add(Add(), ids, moves if dtype == "int32" else editor.add(Cast(dtype), moves))
