"""`scatter-weights`: weights that are added up by their ids are rows of an identity matrix, weighted."""

from __future__ import annotations

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Term
from colonnade.core.identity import identity
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.scatter_nd import ScatterNd
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_reorder import SparseReorder
from colonnade.ops.graph.sparse_slice import SparseSlice
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.weighted_bag import WeightedBag
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.indices import column
from colonnade.passes.one_hots import WIDEST, inside


class ScatterWeights(Rewrite):
    """`scatter_nd` of weights by row and id, those outside sliced away, is a weighted bag on an identity matrix.

    Legal: the slice is of all rows and ids of the shape, and nothing else; the index matrix that the rows come from is
    proven to fit that shape, so that no row is sliced away and no error is lost. A weight stands in the place of its id
    alone, whatever it is ("marks").
    """

    roots = (ScatterNd,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """From the sum back to ids and weights."""
        found = sliced(node)
        if found is None:
            return None
        reorder, shape = found
        indices, weights, _ = args_of(reorder)
        parts = _row_and_id(indices)
        if parts is None:
            return Reject("weights are not added up by the row and the id of each")
        matrix, ids = parts
        sizes = facts_of(shape).values
        depth = sizes[1] if sizes is not None and len(sizes) == 2 else None
        if sizes is None or not isinstance(depth, int) or not 1 <= depth <= WIDEST:
            return Reject(f"{depth} places for weights a row: more than {WIDEST} are no column")
        if facts_of(weights).dtype != "float32" or facts_of(ids).dtype != "int64":
            return Reject("the weights are not float32 of int64 ids")
        reason = _unfit(matrix, sizes[0], editor)
        if reason:
            return Reject(reason)
        zero = editor.constant(np.array(0, dtype=np.int32))
        count = editor.add(Gather(), shape, zero, zero)
        kept, rows, factors = inside(ids, matrix, depth, editor, weights)
        table = editor.constant(identity(depth))
        bag = editor.add(WeightedBag("marks"), table, kept, column(editor, rows, 0), count, factors)
        return Rewritten(bag, f"each weight stands in the place of its id, of {depth}; others are dropped")


def sliced(scatter: Node) -> tuple[Node, Node] | None:
    """The `sparse_reorder` whose elements are added up, those within its shape, and that shape."""
    indices, updates, shape = args_of(scatter)
    (base, first), (same, second), (other, third) = item_of(indices), item_of(updates), item_of(shape)
    if not isinstance(base.target, SparseSlice) or not base is same is other or (first, second, third) != (0, 1, 2):
        return None
    places, values, of, start, size = args_of(base)
    (reorder, first), (same, second) = item_of(places), item_of(values)
    if not isinstance(reorder.target, SparseReorder) or reorder is not same or (first, second) != (0, 1):
        return None
    begins, sizes, reordered = facts_of(start).ints, facts_of(size).values, facts_of(args_of(reorder)[2]).values
    if begins != (0, 0) or sizes is None or not sizes == facts_of(of).values == reordered:
        return None
    return reorder, of


def _row_and_id(indices: Node) -> tuple[Node, Node] | None:
    """The index matrix whose rows, and the ids that, are the two columns of a matrix."""
    op = op_of(indices)
    if not isinstance(op, Concat) or len(args_of(indices)) != 3 or facts_of(args_of(indices)[2]).integer not in (1, -1):
        return None
    rows, ids, _ = args_of(indices)
    shape = facts_of(ids).shape
    if not isinstance(ids.target, ExpandDims | Reshape) or shape is None or len(shape) != 2 or shape[1] != 1:
        return None
    (flat, *_), matrix = args_of(ids), first_column(rows)
    if matrix is None or facts_of(flat).shape != shape[:1]:
        return None
    return matrix, flat


def first_column(node: Node) -> Node | None:
    """The index matrix `[N, 2]` that `[N, 1]` is column 0 of."""
    op = op_of(node)
    if not isinstance(op, Slice | StridedSlice):
        return None
    matrix, begin, *_ = args_of(node)
    shape, made = facts_of(matrix).shape, facts_of(node).shape
    if shape is None or len(shape) != 2 or shape[1] != 2 or made != (shape[0], 1):
        return None
    starts = facts_of(begin).ints
    if isinstance(op, Slice):
        return matrix if starts == (0, 0) else None
    steps = facts_of(args_of(node)[3]).ints
    plain = not (op.new_axis_mask or op.ellipsis_mask or op.shrink_axis_mask)
    begins = starts is not None and all(s == 0 or op.begin_mask >> k & 1 for k, s in enumerate(starts))
    return matrix if plain and begins and steps == (1, 1) else None


def _unfit(matrix: Node, rows: Dim, editor: Editor) -> str:
    """Why the rows of an index matrix are not proven to be sorted and of so many; empty where they are."""
    base, output = item_of(matrix)
    op = op_of(base)
    place: int | None = None
    if isinstance(op, Where):
        shape = facts_of(args_of(base)[0]).shape
        return "" if shape and shape[0] == rows else "the mask of the ids is not proven to have as many rows"
    if isinstance(op, StringSplit | SparseCross) and output == 0:
        place = 2
    elif isinstance(op, ParseExample) and op.place(output)[1] == "indices":
        wanted = op.place(output)[0], "shape"
        place = next(k for k in range(op.num_outputs) if op.place(k) == wanted)
    elif isinstance(op, RaggedInput) and output == 0:
        place = op.num_outputs - 1
    if place is not None:
        sizes = facts_of(editor.item(base, place)).values
        return "" if sizes and sizes[0] == rows else "the ids are not proven to be of as many rows"
    known = facts_of(matrix)
    if known.packed is None or known.packed.axis != 1:
        return "the places of ids are not known"
    part = known.packed.parts[0]
    width = None if part.shape is None else dims.div_exact(part.shape[0], rows)
    expected = None if width is None else facts.indexed((Term(1, width, None),), 0, dims.mul(rows, width))
    return "" if expected is not None and facts.as_indexed(part) == expected else "rows of ids are not all in order"
