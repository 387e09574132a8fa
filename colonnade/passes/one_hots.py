"""`one-hots`: multi-hot vectors are rows of an identity matrix, pooled."""

from __future__ import annotations

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.expr import Field
from colonnade.core.facts import Order, Term
from colonnade.core.identity import identity
from colonnade.ir.decoded import decoded_names
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of, source_of
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.dense_bincount import DenseBincount
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.logical_and import LogicalAnd
from colonnade.ops.graph.logical_or import LogicalOr
from colonnade.ops.graph.max import Max
from colonnade.ops.graph.mean import Mean
from colonnade.ops.graph.minimum import Minimum
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.one_hot import OneHot
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.sum import Sum
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.where import Where
from colonnade.passes.bags import bag
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.domains import Dense
from colonnade.passes.elements import Reader
from colonnade.passes.indices import column
from colonnade.passes.single_elements import shape_of
from colonnade.passes.splat import splat

WIDEST = 1 << 14
"""Marks of a vector. Its identity matrix is never made: its rows are windows of one vector."""
MOST_MADE = 1024
"""Marks of a vector where the table is made: it then has 4 MiB."""


class OneHots(Rewrite):
    """Counts of ids, and marks of one id a place, are an embedding bag on an identity matrix.

    Legal: marks are 1 and 0 in float32, the new axis is the last and the sum is over the places of a row; ids that mark
    nothing are dropped first; the index matrix that spreads ids over places is proven to fit its shape and to repeat
    nothing, so that no error is lost. Counts up to 2^24 are exact, whatever the order of the sum. Ids of dense tensors
    are those of input fields; a negative id of a count stays an error.
    """

    roots = (Sum, Mean, Max, Reshape, OneHot, DenseBincount)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """A sum over places, a row of all places side by side, one place, or counts."""
        if isinstance(node.target, DenseBincount):
            return _bincount(node, editor)
        if isinstance(node.target, OneHot):
            rank = facts_of(args_of(node)[0]).rank
            return _unpooled(node, editor) if rank == 2 and not _is_single(node) else _single(node, editor)
        x = args_of(node)[0]
        if not isinstance(x.target, OneHot):
            return None
        depth = _depth(x)
        if isinstance(depth, Reject):
            return depth
        if isinstance(node.target, Sum):
            single = facts_of(args_of(x)[0]).rank == 3
            return _single_counts(node, x, depth, editor) if single else _counts(node, x, depth, editor)
        if isinstance(node.target, Mean | Max):
            return _of_counts(node, x, depth, editor)
        return _marks(node, x, depth, editor)


def _single(node: Node, editor: Editor) -> Rewritten | Reject | None:
    """`one_hot(ids)` of one id a row, `[B]` or `[B, 1]`."""
    ids, depth, on, off = args_of(node)
    shape, op = facts_of(ids).shape, op_of(node)
    assert isinstance(op, OneHot)
    if shape is None or len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
        return None
    if len(shape) == 2 and node.users and all(isinstance(user.target, Sum) for user in node.users):
        return None  # counts: the sum is rewritten, and nothing is left of it
    size, marks = facts_of(depth).integer, [m for m in (splat(on), splat(off)) if m is not None]
    if op.axis not in (-1, len(shape)) or [float(m) for m in marks] != [1, 0]:
        return Reject("the marks are not 1 and 0 along a new last axis")
    if size is None or not 1 <= size <= WIDEST:
        return Reject(f"{size} marks a vector: more than {WIDEST} are no column")
    reason = _of_fields(ids, editor)
    if reason is not None:
        return Reject(reason)
    ids = _exact(ids)
    made = bag(editor, "sum", editor.constant(identity(size)), ids, _outside_mask(editor, ids, 0, size))
    if len(shape) == 2:
        made = editor.add(ExpandDims(), made, editor.constant(np.int32(1)))
    proof = f"each id is its row of the identity matrix of {size}; others have no row"
    return Rewritten(_as_dtype(made, node, editor), proof)


READING = (Sum, Mean, Max, Reshape)
"""Ops that are rewritten with the marks they read."""


def _is_single(one_hot: Node) -> bool:
    return (facts_of(args_of(one_hot)[0]).shape or ())[1:] == (1,)


def _unpooled(node: Node, editor: Editor) -> Rewritten | Reject | None:
    """`one_hot(ids)` of several ids a row, `[B, T]`, in places of their own."""
    if node.users and all(isinstance(user.target, READING) for user in node.users):
        return None
    depth = _depth(node)
    if isinstance(depth, Reject):
        return depth
    found = _gathered(node, depth, editor)
    return found if isinstance(found, Reject) else Rewritten(found, "each id is its row of marks; others have none")


def _gathered(one_hot: Node, depth: int, editor: Editor) -> Node | Reject:
    """`[B, T, depth]` marks as rows of a table."""
    ids = args_of(one_hot)[0]
    read = Reader(decoded_names(editor.graph)).elements(ids)
    reason = _of_fields(ids, editor)
    if isinstance(read, Reject) or reason is not None:
        return Reject(reason or "the ids are not those of a field")
    if isinstance(read.expr, Field):
        return Reject("the ids are numbers as they are given, of which the dense rest makes marks")
    known, zero = facts_of(ids), editor.constant(np.array(0, np.int32))
    table = identity(depth)
    if known.lo is None or known.lo < 0 or known.hi is None or known.hi >= depth:
        if depth > MOST_MADE:
            return Reject(f"{depth} marks a vector: a table of more than {MOST_MADE} rows and one of zeros is not made")
        table = np.concatenate([table, np.zeros((1, depth), np.float32)])
        first, last = (editor.constant(np.array(n, dtype=known.dtype)) for n in (0, depth))
        outside = editor.add(LogicalOr(), editor.add(Compare("lt"), ids, first), editor.add(Compare("ge"), ids, last))
        ids = editor.add(Select(), outside, last, ids)
    return editor.add(Gather(), editor.constant(table), ids, zero)


def _of_counts(node: Node, one_hot: Node, depth: int, editor: Editor) -> Rewritten | Reject:
    """The largest or the mean of the marks of a row's places."""
    op, shape = op_of(node), facts_of(args_of(one_hot)[0]).shape
    assert isinstance(op, Mean | Max)
    places = shape[1] if shape is not None and len(shape) == 2 else None
    if facts_of(args_of(node)[1]).ints not in ((1,), (-2,)) or op.keep_dims or not isinstance(places, int):
        return Reject("marks are not reduced over a known number of places of a row")
    if not 1 <= places < 2**24:
        return Reject(f"marks of {places} places have no largest or mean that counts tell")
    ids = args_of(one_hot)[0]
    reason = _of_fields(ids, editor)
    if reason is not None:
        return Reject(reason)
    counts = _inner(bag(editor, "sum", editor.constant(identity(depth)), ids, _outside_mask(editor, ids, 0, depth)))
    if isinstance(op, Max):
        made = editor.add(Minimum(), counts, editor.constant(np.float32(1)))
        return Rewritten(made, "what is marked at any place is counted")
    return Rewritten(editor.add(RealDiv(), counts, editor.constant(np.float32(places))), "the counts of all places")


def _bincount(node: Node, editor: Editor) -> Rewritten | Reject | None:
    """How often each id occurs in a row of `[B, T]`, or whether it does."""
    ids, _, weights = args_of(node)
    op, made_shape = op_of(node), facts_of(node).shape
    assert isinstance(op, DenseBincount)
    size = made_shape[1] if made_shape is not None and len(made_shape) == 2 else None
    if not isinstance(size, int) or not 1 <= size <= WIDEST:
        return Reject(f"{size} counts a row: more than {WIDEST} are no column")
    reason = _of_fields(ids, editor)
    if reason is not None:
        return Reject(reason)
    if not op.binary and facts_of(weights).size != 0:
        return _weighted_counts(ids, weights, size, editor)
    counts = bag(editor, "sum", editor.constant(identity(size)), ids, _outside_mask(editor, ids, None, size))
    shape = facts_of(ids).shape
    if op.binary and shape is not None and shape[1] != 1:
        counts = editor.add(Minimum(), _inner(counts), editor.constant(np.float32(1)))
    proof = f"each id below {size} adds its row of the identity matrix; a negative id has none and stays an error"
    return Rewritten(_as_dtype(counts, node, editor), proof)


def _inner(counts: Node) -> Node:
    """Counts of which the node's value is made: no tensor of the source holds them."""
    counts.meta["source"] = f"{source_of(counts)} (counts)"
    return counts


def _weighted_counts(ids: Node, weights: Node, size: int, editor: Editor) -> Rewritten | Reject:
    """The sum of the weights of each id: every place marks its id, then a weight stands where a mark does.

    Facts: marks times weights would not do, for a weight that is no number would be one of every id.
    """
    shape, known = facts_of(ids).shape, facts_of(ids)
    if shape is None or len(shape) != 2 or facts_of(weights).shape != shape or facts_of(weights).dtype != "float32":
        return Reject("the weights of counts are not a float32 each of [B, T] ids")
    if known.hi is None or known.hi >= size:
        last = editor.constant(np.array(size, dtype=known.dtype))
        ids = editor.add(Select(), editor.add(Compare("ge"), ids, last), last, ids)
    if size > MOST_MADE:
        return Reject(f"{size} weighted counts a row: a table of more than {MOST_MADE} rows is not made")
    table = np.concatenate([identity(size), np.zeros((1, size), np.float32)])
    marks = editor.add(Gather(), editor.constant(table), ids, editor.constant(np.array(0, np.int32)))
    zero, two = editor.constant(np.float32(0)), editor.constant(np.array(2, np.int32))
    factors = editor.add(ExpandDims(), weights, two)
    parts = editor.add(Select(), editor.add(Compare("gt"), marks, zero), factors, zero)
    made = editor.add(Sum(), parts, editor.constant(np.array([1], np.int32)))
    return Rewritten(made, f"each id below {size} adds its weight at its place; a negative id stays an error")


def _of_fields(ids: Node, editor: Editor) -> str | None:
    """Why ids are not those of all elements of dense fields."""
    read = Reader(decoded_names(editor.graph)).elements(ids)
    if isinstance(read, Reject):
        return read.reason
    shape = facts_of(ids).shape
    assert shape is not None
    if not isinstance(read.domain, Dense) or read.domain.rows != shape[0] or facts_of(ids).size != _size(read.domain):
        return "the ids are not proven to be those of all elements of a field, a batch row each"
    return None


def _size(domain: Dense) -> dims.Dim:
    return dims.mul(domain.rows, domain.width)


def _exact(ids: Node) -> Node:
    """The ids before they were cast to floats and back: float32 has every integer that marks something."""
    while isinstance(ids.target, Cast):
        (x,) = args_of(ids)
        (y,) = args_of(x) if isinstance(x.target, Cast) else (None,)
        if y is None or facts_of(x).dtype != "float32" or facts_of(y).dtype not in ("int32", "int64"):
            break
        if facts_of(ids).dtype != "int64":
            break
        ids = y
    return ids


def _outside_mask(editor: Editor, ids: Node, low: int | None, high: int) -> Node | None:
    """Which ids lie in `low .. high - 1`; None where all are proven to."""
    known = facts_of(ids)
    masks = []
    if low is not None and (known.lo is None or known.lo < low):
        masks.append(editor.add(Compare("ge"), ids, editor.constant(np.array(low, dtype=known.dtype))))
    if known.hi is None or known.hi >= high:
        masks.append(editor.add(Compare("lt"), ids, editor.constant(np.array(high, dtype=known.dtype))))
    return editor.add(LogicalAnd(), *masks) if len(masks) == 2 else masks[0] if masks else None


def _as_dtype(made: Node, node: Node, editor: Editor) -> Node:
    """Counts in the dtype of what they replace; who casts that to float32 reads them as they are."""
    dtype = facts_of(node).dtype
    if dtype == "float32":
        return made
    for user in list(node.users):
        if isinstance(user.target, Cast) and facts_of(user).dtype == "float32":
            editor.graph.replace(user, made)
    return editor.add(Cast(dtype), made)


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
    if rank not in (2, 3) or op.axis not in (-1, rank):
        return Reject("the marks are not the last axis of a batch of places")
    if size is None or not 1 <= size <= WIDEST:
        return Reject(f"{size} marks a vector: more than {WIDEST} are no column")
    return size


def _counts(node: Node, one_hot: Node, depth: int, editor: Editor) -> Rewritten | Reject:
    """`sum over places(one_hot(sparse_to_dense(ids)))`: how often each id occurs in a row."""
    op = op_of(node)
    assert isinstance(op, Sum)
    spread = args_of(one_hot)[0]
    if facts_of(args_of(node)[1]).ints not in ((1,), (-2,)) or op.keep_dims:
        return Reject("marks are not summed over the places of a row")
    cross = _cross(spread)
    if cross is not None:
        return _of_cross(cross, depth, editor)
    if not isinstance(spread.target, SparseToDense):
        reason = _of_fields(spread, editor)
        if reason is not None:
            return Reject(f"marks are not those of sparse ids, and {reason}")
        made = bag(editor, "sum", editor.constant(identity(depth)), spread, _outside_mask(editor, spread, 0, depth))
        return Rewritten(made, f"each id of a row adds its row of the identity matrix of {depth}; others are dropped")
    return _spread_counts(spread, depth, editor)


def _single_counts(node: Node, one_hot: Node, depth: int, editor: Editor) -> Rewritten | Reject:
    """The same of `[B, T, 1]`: each place is a row of its own."""
    op, ids = op_of(node), args_of(one_hot)[0]
    assert isinstance(op, Sum)
    shape = facts_of(ids).shape
    if shape is None or shape[2] != 1 or facts_of(args_of(node)[1]).ints not in ((2,), (-2,)) or op.keep_dims:
        return Reject("marks are not summed over the places of a row")
    flat = ids
    while isinstance(flat.target, Reshape):
        flat = args_of(flat)[0]
    if isinstance(flat.target, SparseToDense):
        made = _spread_counts(flat, depth, editor)
    else:
        flat = editor.add(Reshape(), ids, editor.constant(np.array([-1])))
        reason = _of_fields(flat, editor)
        if reason is not None:
            return Reject(reason)
        marks = bag(editor, "sum", editor.constant(identity(depth)), flat, _outside_mask(editor, flat, 0, depth))
        made = Rewritten(marks, f"each id is its row of the identity matrix of {depth}; others are dropped")
    wanted = facts_of(node).shape
    if isinstance(made, Reject) or wanted is None:
        return made
    assert isinstance(made.value, Node)
    return Rewritten(editor.add(Reshape(), made.value, shape_of(editor, wanted, [ids])), made.proof)


def _spread_counts(spread: Node, depth: int, editor: Editor) -> Rewritten | Reject:
    """Counts of sparse ids by the first index."""
    indices, shape, ids, default = args_of(spread)
    missing = splat(default)
    if missing is None or 0 <= int(missing) < depth:
        return Reject("a place without an id is marked, too")
    reason = _unfit(indices, shape)
    if reason:
        return Reject(reason)
    if facts_of(ids).rank != 1:
        return Reject("the ids are no vector")
    made = _marked(indices, ids, shape, depth, editor)
    return Rewritten(made, f"each id adds its row of the identity matrix of {depth}; others are dropped")


def _cross(spread: Node) -> Node | None:
    """The cross that has as many ids in each row as a row of its ids' matrix has places."""
    node, shape = spread, facts_of(spread).shape
    while isinstance(node.target, Reshape | ExpandDims | Squeeze):
        node = args_of(node)[0]
    base, output = item_of(node)
    if not isinstance(base.target, SparseCross) or output != 1 or shape is None or len(shape) != 2:
        return None
    packed = base.meta["facts"][0].packed
    if packed is None or facts_of(spread).size != facts_of(node).size:
        return None
    expected = facts.indexed((Term(1, shape[1], None),), 0, facts_of(node).size)
    return base if facts.as_indexed(packed.parts[0]) == expected else None


def _of_cross(cross: Node, depth: int, editor: Editor) -> Rewritten:
    """Counts of the ids of a cross."""
    indices, ids, shape = (editor.item(cross, k) for k in range(3))
    made = _marked(indices, ids, shape, depth, editor)
    return Rewritten(made, f"each id of the cross adds its row of the identity matrix of {depth}")


def _marked(indices: Node, ids: Node, shape: Node, depth: int, editor: Editor) -> Node:
    """The sum of each row's rows of the identity matrix."""
    kept, kept_indices = inside(ids, indices, depth, editor)
    zero = editor.constant(np.array(0, dtype=np.int32))
    count = editor.add(Gather(), shape, zero, zero)
    return editor.add(
        EmbeddingBag("sum"), editor.constant(identity(depth)), kept, column(editor, kept_indices, 0), count
    )


def inside(ids: Node, indices: Node, depth: int, editor: Editor, *others: Node) -> tuple[Node, ...]:
    """The ids that mark something, their index rows, and what else belongs to them."""
    known = facts_of(ids)
    if known.lo is not None and known.hi is not None and known.lo >= 0 and known.hi < depth:
        return ids, indices, *others
    low, high = (editor.constant(np.array(bound, dtype=known.dtype)) for bound in (0, depth))
    mask = editor.add(LogicalAnd(), editor.add(Compare("ge"), ids, low), editor.add(Compare("lt"), ids, high))
    flat = editor.constant(np.array([-1], dtype=np.int32))
    keep = editor.add(Reshape(), editor.add(Where(), mask), flat)
    zero = editor.constant(np.array(0, dtype=np.int32))
    return tuple(editor.add(Gather(), x, keep, zero) for x in (ids, indices, *others))


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
    if len(known.shape) != 2:
        return Reject("marks are not those of a batch of places")
    rows, places = known.shape
    if not isinstance(places, int) or facts_of(node).shape != (rows, places * depth):
        return Reject(f"the marks of a row are not side by side: {facts_of(node).shape}")
    if known.lo is None or known.hi is None or known.lo < 0 or known.hi >= depth:
        found = _gathered(one_hot, depth, editor)
        if isinstance(found, Reject):
            return found
        side_by_side = editor.add(Reshape(), found, args_of(node)[1])
        return Rewritten(side_by_side, "each id is its row of marks in its place; others have none")
    if places < 1 or places * depth > WIDEST:
        return Reject(f"{places * depth} marks a row: more than {WIDEST} are no column")
    reason = _of_fields(ids, editor)
    if reason is not None:
        return Reject(reason)
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
