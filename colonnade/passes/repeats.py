"""Reads row numbers made of splits: `repeat(0 .. n - 1, lengths)`, as a frontend spells it with a mask."""

from __future__ import annotations

from colonnade.core import dims
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.broadcast_to import BroadcastTo
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.max import Max
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.where import Where


def splits_behind(rows: Node) -> Node | None:
    """The splits where `rows` is proven to be the row of each element that they say; else None.

    Facts: the row numbers 0 .. n - 1 stand in a matrix of the longest row's width; the mask keeps as many of a row as
    it is long. n is one less than the number of splits.
    """
    while isinstance(rows.target, Cast) and facts_of(rows).dtype in ("int32", "int64"):
        rows = args_of(rows)[0]
    if not isinstance(rows.target, Gather) or facts_of(rows).rank != 1:
        return None
    numbers, kept, axis = args_of(rows)
    found = _repeated(numbers)
    if found is None or facts_of(axis).integer != 0:
        return None
    counted, width = found
    lengths = _masked(kept, width)
    return _differences(lengths, counted) if lengths is not None else None


def _repeated(numbers: Node) -> tuple[Node, Node] | None:
    """The range and the width where the vector is the matrix of `width` times each of 0 .. n - 1."""
    if not isinstance(numbers.target, Reshape) or facts_of(numbers).rank != 1:
        return None
    tiled = args_of(numbers)[0]
    if not isinstance(tiled.target, Tile):
        return None
    column, multiples = args_of(tiled)
    if not isinstance(column.target, ExpandDims) or not isinstance(multiples.target, Pack):
        return None
    counted, axis = args_of(column)
    if facts_of(axis).integer not in (1, -1) or not isinstance(counted.target, Range):
        return None
    one, width, *more = args_of(multiples)
    return (counted, width) if facts_of(one).integer == 1 and not more else None


def _masked(kept: Node, width: Node) -> Node | None:
    """The lengths where the indices are those of the first `length` of `width` places of each row."""
    if not isinstance(kept.target, Squeeze | Reshape) or not isinstance(args_of(kept)[0].target, Where):
        return None
    (mask,) = args_of(args_of(kept)[0])
    if not isinstance(mask.target, Reshape) or facts_of(mask).rank != 1:
        return None
    below = args_of(mask)[0]
    op = op_of(below)
    if not isinstance(op, Compare) or op.kind != "lt":
        return None
    places, column = args_of(below)
    if not isinstance(places.target, Range):
        return None
    start, limit, step = args_of(places)
    column = _uncast(column)
    if (facts_of(start).integer, limit, facts_of(step).integer) != (0, width, 1):
        return None
    if not isinstance(column.target, ExpandDims) or facts_of(args_of(column)[1]).integer not in (-1, 1):
        return None
    lengths = args_of(column)[0]
    return lengths if facts_of(lengths).rank == 1 and _is_longest(width, lengths) else None


def _is_longest(width: Node, lengths: Node) -> bool:
    """Whether the width is `maximum(0, max(lengths))`."""
    if not isinstance(width.target, Maximum):
        return False
    zero, longest = args_of(width)
    return facts_of(zero).integer == 0 and isinstance(longest.target, Max) and args_of(longest)[0] is lengths


def _differences(lengths: Node, counted: Node) -> Node | None:
    """The splits whose differences the lengths are, where the range counts their rows."""
    node = _uncast(lengths)
    if isinstance(node.target, BroadcastTo):
        node, shape = args_of(node)
        if facts_of(shape).values != facts_of(counted).shape:
            return None
    node = _uncast(node)
    if not isinstance(node.target, Sub):
        return None
    after, before = args_of(node)
    splits = _sliced(after, first=True)
    if splits is None or _sliced(before, first=False) is not splits:
        return None
    known = facts_of(splits).shape
    start, limit, step = map(facts_of, args_of(counted))
    if known is None or (start.integer, step.integer) != (0, 1):
        return None
    return splits if limit.values == (dims.sub(known[0], 1),) else None


def _uncast(node: Node) -> Node:
    """Lengths and numbers of elements that exist fit both dtypes."""
    while isinstance(node.target, Cast) and facts_of(node).dtype in ("int32", "int64"):
        node = args_of(node)[0]
    return node


def _sliced(node: Node, first: bool) -> Node | None:
    """x where the node is `x[1:]` (first) or `x[:-1]`."""
    op = op_of(node)
    if not isinstance(op, StridedSlice) or op.shrink_axis_mask or op.new_axis_mask or op.ellipsis_mask:
        return None
    x, begin, end, strides = args_of(node)
    if facts_of(x).rank != 1 or facts_of(strides).integer != 1:
        return None
    if first:
        return x if facts_of(begin).integer == 1 and not op.begin_mask and op.end_mask == 1 else None
    starts = op.begin_mask == 1 or facts_of(begin).integer == 0
    return x if starts and facts_of(end).integer == -1 and not op.end_mask else None
