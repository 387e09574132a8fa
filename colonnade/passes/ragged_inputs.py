"""`ragged-inputs`: inputs that together say rows of differing lengths are read as such."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph._elementwise import Binary, Unary
from colonnade.ops.graph.as_string import AsString
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.lookup_table_find import LookupTableFind
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.ragged_to_dense import RaggedToDense
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.segment_sum import SegmentSum
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_reorder import SparseReorder
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.graph.string_to_keyed_bucket import StringToKeyedBucket
from colonnade.ops.graph.unsorted_segment_sum import UnsortedSegmentSum
from colonnade.ops.graph.variable import Variable
from colonnade.passes.base import Editor, Pass
from colonnade.passes.indices import column, column_of
from colonnade.passes.repeats import splits_behind
from colonnade.passes.splat import shaped_as

ROOTS = (
    SparseFillEmptyRows,
    SparseToDense,
    SparseCross,
    SparseReorder,
    SparseSegmentReduce,
    SegmentSum,
    UnsortedSegmentSum,
    RaggedInput,
    RaggedToDense,
)


@dataclass
class _Group:
    """Inputs that one op uses as a matrix.

    outer: nested: the splits of rows, whose rows `first` splits.   shapes: dense shapes.   rows: row numbers made of
    splits.   said: ops of the source that say as much.
    strict: whether an op demands that places within a row rise.   whole: whether one reads all rows that splits say.
    """

    by: str
    first: Node
    shapes: dict[Node, None] = field(default_factory=dict)
    values: dict[Node, None] = field(default_factory=dict)
    rows: dict[Node, None] = field(default_factory=dict)
    said: dict[Node, None] = field(default_factory=dict)
    strict: bool = False
    whole: bool = False
    outer: Node | None = None


class RaggedInputs(Pass):
    """Inputs used as an index matrix (or splits, or splits of splits), a dense shape and values go through one
    `ragged_input`.

    Legal: each is an input of the graph of the matrix' rank, dtype and role in an op that takes such matrices; a vector
    of values has a role with one index matrix or splits alone. What the op demands of rows then holds in every request:
    one that breaks it is refused. Rows that are read without a dense shape end with the last element's.
    """

    def run(self, editor: Editor) -> int:
        """Collect the groups, then put an op in front of the users of each."""
        inputs = set(editor.graph.inputs.values())
        groups: dict[tuple[str, Node, Node | None], _Group] = {}
        for node in list(editor.graph.nodes()):
            if isinstance(node.target, ROOTS):
                for found in _evidence(node):
                    _join(groups, found, inputs)
        if groups:
            editor.graph.inputs_first()
        anchor = next((n for n in editor.graph.nodes() if not isinstance(n.target, Placeholder)), None)
        taken: set[Node] = set()
        changed = 0
        for group in groups.values():
            reason = _unfit(group, taken)
            if reason is not None or anchor is None:
                editor.record(group.first, False, reason or "")
                continue
            taken |= group.values.keys()
            _put(editor.at(anchor), group, changed)
            editor.record(group.first, True, f"used as the {group.by} of rows; every request is held to that")
            changed += 1
        return changed


def _join(groups: dict[tuple[str, Node, Node | None], _Group], found: _Group, inputs: set[Node]) -> None:
    found = _nested(found)
    if found.outer is not None and found.outer not in inputs:
        return
    if found.first not in inputs or not found.values or not inputs.issuperset({*found.shapes, *found.values}):
        return
    known = groups.setdefault((found.by, found.first, found.outer), found)
    known.shapes |= found.shapes
    known.values |= found.values
    known.rows |= found.rows
    known.said |= found.said
    known.strict |= found.strict
    known.whole |= found.whole


def _nested(group: _Group) -> _Group:
    """The same; by splits that are those of rows of rows where they are `inner[outer]`."""
    node = group.first
    while isinstance(node.target, Cast) and facts_of(node).dtype in ("int32", "int64"):
        node = args_of(node)[0]
    op = op_of(node)
    if group.by != "splits" or not isinstance(op, Gather) or op.batch_dims or facts_of(node).rank != 1:
        return group
    inner, outer, axis = args_of(node)
    if facts_of(inner).rank != 1 or facts_of(axis).integer != 0:
        return group
    return replace(group, by="nested", first=inner, outer=outer)


def _unfit(group: _Group, taken: set[Node]) -> str | None:
    """Why the inputs are no ragged matrix; None where they are."""
    first = facts_of(group.first)
    if group.by == "indices" and (first.dtype != "int64" or first.rank != 2 or first.shape is None):
        return "the index matrix is not known to be an int64 matrix"
    if group.by == "indices" and first.shape is not None and first.shape[1] != 2:
        return "the index matrix is not known to have two columns"
    if group.outer is not None and facts_of(group.outer).dtype != first.dtype:
        return "splits and those of their rows differ in dtype"
    if len(group.shapes) > 1:
        return "one index matrix is used with several dense shapes"
    if any(facts_of(s).shape != (2,) or facts_of(s).dtype != "int64" for s in group.shapes):
        return "the dense shape is not known to have two sizes"
    if any(facts_of(v).rank != 1 for v in group.values):
        return "values are not known to be a vector"
    if not taken.isdisjoint(group.values):
        return "values are used with several index matrices or splits"
    return None


def _put(editor: Editor, group: _Group, number: int) -> None:
    trimmed = not group.shapes and not group.said and not group.whole
    values = list(group.values)
    op = RaggedInput(group.by, len(values), trimmed, group.strict, f"r{number}", f"t{number}")
    operands = [*([] if group.outer is None else [group.outer]), group.first, *group.shapes, *values]
    node = editor.add(op, *operands)
    items = [editor.item(node, k) for k in range(op.num_outputs)]
    made = dict(zip(values, items[1:-1], strict=True))
    if group.by == "indices":
        made[group.first] = items[0]
    made |= dict.fromkeys(group.shapes, items[-1])
    for said in group.said:
        for user in list(said.users):
            place, value = item_of(user)[1], args_of(said)[1]
            editor.graph.replace(user, made.get(value, value) if place == 1 else items[-1 if place else 0])
    for old, new in made.items():
        editor.graph.replace(old, new, but=node)
    for rows in group.rows:
        vector = column(editor, items[0], 0)
        if facts_of(rows).dtype != "int64":
            vector = editor.add(Cast(facts_of(rows).dtype), vector)
        editor.graph.replace(rows, vector)


# -- what ops use as what -------------------------------------------------------------------------------------------
def _evidence(node: Node) -> Iterator[_Group]:
    op, args = op_of(node), args_of(node)
    if isinstance(op, SparseFillEmptyRows):
        yield from _matrix(args[0], args[1], args[2])
    elif isinstance(op, SparseToDense):
        yield from _matrix(args[0], args[2], args[1], op.validate)
    elif isinstance(op, SparseCross):
        for matrix, values, shape in op.split(args)[0]:
            yield from _matrix(matrix, values, shape)
    elif isinstance(op, SparseReorder):
        yield from _placed(*args)
    elif isinstance(op, RaggedInput):
        yield _Group("splits", args[0], {}, dict.fromkeys(map(_source, args[1:])), said={node: None})
    elif isinstance(op, RaggedToDense):
        yield _Group("splits", args[0], {}, dict.fromkeys(_vectors(args[1])), whole=True)
    elif isinstance(op, SparseSegmentReduce):
        yield from _segments(args[2], (args[1],))
    elif isinstance(op, SegmentSum):
        yield from _segments(args[1], (args[0],))
    elif isinstance(op, UnsortedSegmentSum):
        yield from _all_segments(args[1], args[0])


def _matrix(matrix: Node, values: Node, shape: Node, strict: bool = False) -> Iterator[_Group]:
    first, size = _matrix_behind(matrix), _shape_behind(shape)
    if first is not None and size is not None:
        yield _Group("indices", first, {size: None}, dict.fromkeys(_vectors(values)), strict=strict)


def _placed(indices: Node, weights: Node, shape: Node) -> Iterator[_Group]:
    """Weights in places that are rows of a matrix and ids, in a shape of as many rows."""
    if not isinstance(indices.target, Concat) or not isinstance(shape.target, Concat) or len(args_of(indices)) != 3:
        return
    (rows, ids, _), count = args_of(indices), args_of(shape)[0]
    if isinstance(rows.target, _CUTS) and isinstance(count.target, _CUTS):
        first, size = _matrix_behind(args_of(rows)[0]), _shape_behind(args_of(count)[0])
        if first is not None and size is not None:
            yield _Group("indices", first, {size: None}, dict.fromkeys((*_vectors(ids), *_vectors(weights))))


def _segments(rows: Node, values: tuple[Node, ...]) -> Iterator[_Group]:
    """Rows that are read without a dense shape."""
    found = dict.fromkeys(v for each in values for v in _vectors(each))
    at = column_of(rows)
    if at is not None and at[1] == 0 and isinstance(at[0].target, Placeholder):
        yield _Group("indices", at[0], {}, found)
        return
    splits = splits_behind(rows)
    if splits is not None:
        yield _Group("splits", splits, {}, found, {rows: None})


def _all_segments(rows: Node, values: Node) -> Iterator[_Group]:
    """Rows that are made of splits, of which all are read."""
    splits = splits_behind(rows)
    if splits is not None:
        yield _Group("splits", splits, {}, dict.fromkeys(_vectors(shaped_as(values))), {rows: None}, whole=True)


def _source(values: Node) -> Node:
    """The input that a vector is made of, where each of its elements is made of the one in its place."""
    stack, found = [values], set[Node]()
    while stack:
        node = stack.pop()
        if facts_of(node).rank == 0 or isinstance(node.target, Constant):
            continue
        if isinstance(node.target, Placeholder):
            found.add(node)
        elif isinstance(node.target, _ELEMENTWISE) and facts_of(node).shape == facts_of(values).shape:
            stack.extend(args_of(node))
        else:
            return values
    (source,) = found if len(found) == 1 else (values,)
    return source if facts_of(source).shape == facts_of(values).shape else values


_ELEMENTWISE = (
    Unary, Binary, AsString, Bucketize, Cast, Compare, LookupTableFind, Select, StringToHashBucket, StringToKeyedBucket,
)  # fmt: skip


def _matrix_behind(node: Node) -> Node | None:
    """The input that an index matrix is made of by dropping elements or cutting them anew."""
    while True:
        base, output = item_of(node)
        if isinstance(base.target, Placeholder):
            return base
        drops = isinstance(base.target, Gather | SparseReshape | SparseFillEmptyRows)
        if not drops or output != 0:
            return None
        node = args_of(base)[0]


def _shape_behind(node: Node) -> Node | None:
    """The input that a dense shape is, or that a matrix had before it was cut anew."""
    while True:
        base, output = item_of(node)
        if isinstance(base.target, Placeholder):
            return base
        if not isinstance(base.target, SparseReshape) or output != 1:
            return None
        node = args_of(base)[1]


_CUTS = (Slice, StridedSlice)
_STOPS = (RaggedToDense, SegmentSum, Shape, Slice, SparseSegmentReduce, StridedSlice, UnsortedSegmentSum)
"""Ops whose result is no element of their operand, or not each."""


def _vectors(node: Node) -> Iterator[Node]:
    """The inputs that a tensor is made of element by element, or by dropping elements."""
    stack, seen = [node], set[Node]()
    while stack:
        base, _ = item_of(stack.pop())
        if base in seen:
            continue
        seen.add(base)
        op = op_of(base)
        if isinstance(op, Placeholder):
            if facts_of(base).rank == 1:
                yield base
        elif isinstance(op, Gather):
            params, indices, _ = args_of(base)
            stack.append(indices if isinstance(params.target, Variable) or facts_of(params).rank != 1 else params)
        elif isinstance(op, Reshape | Squeeze):
            stack.append(args_of(base)[0])
        elif op is not None and not isinstance(op, _STOPS):
            stack.extend(args_of(base))
