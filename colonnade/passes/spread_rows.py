"""`spread-rows`: rows of differing lengths whose elements keep their places become rows of equal lengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colonnade.core.consts import Const
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.ceil import Ceil
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.pad_rows import PadRows
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.ragged_to_dense import RaggedToDense
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.row_ends import RowEnds
from colonnade.ops.graph.row_marks import RowMarks
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Editor, Pass, Reject
from colonnade.passes.indices import column
from colonnade.passes.moved import Moved, behind
from colonnade.passes.row_views import Rows, rows_of, uses_of
from colonnade.passes.splat import splat


class SpreadRows(Pass):
    """Ids whose every place is a row, dense tensors of values and lengths are read of padded rows and their marks.

    Legal: the index matrix is one of rows that every request is held to (places rise within a row: a request in which
    they do not is refused), in a shape that is proven to have the same places; lengths are `segment_max` of places + 1,
    with zeros for the rows behind the last, and what is done to them is proven to keep 0.
    """

    def run(self, editor: Editor) -> int:
        """One ragged input or feature after the other."""
        changed = 0
        for base in [n for n in editor.graph.nodes() if isinstance(n.target, RaggedInput | ParseExample)]:
            for rows in rows_of(editor, base):
                if rows is not None and uses_of(editor.graph, rows):
                    changed += _spread(editor, _settled(editor, rows))
        return changed


def _settled(editor: Editor, rows: Rows) -> Rows:
    """The same rows, in which places rise."""
    op = op_of(rows.base)
    if not isinstance(op, RaggedInput) or op.strict or op.by != "indices":
        return rows
    base = editor.at(rows.base).add(replace(op, strict=True), *args_of(rows.base))
    for user in list(rows.base.users):
        editor.graph.replace(user, editor.item(base, item_of(user)[1]))
    (found,) = rows_of(editor, base)
    assert found is not None
    return found


def _spread(editor: Editor, rows: Rows) -> int:
    found = uses_of(editor.graph, rows)
    maker = _Maker(editor, rows)
    for view in found.flat:
        maker.flat(view)
    for node in found.dense:
        maker.dense(node)
    for node, total in found.lengths:
        maker.lengths(node, total)
    moved = sum(map(maker.ragged, found.ragged))
    return len(found.flat) + len(found.dense) + len(found.lengths) + moved


class _Maker:
    def __init__(self, editor: Editor, rows: Rows) -> None:
        self.editor = editor
        self.rows = rows
        given = {rows.matrix, rows.shape, *rows.values}
        self._anchor = [n for n in editor.graph.nodes() if n in given][-1].next
        self._made: dict[object, Node] = {}

    def _once(self, op: RowMarks | RowEnds | PadRows, *args: Node) -> Node:
        """An op right behind the rows, once."""
        key = (op, args)
        if key not in self._made:
            self._made[key] = self.editor.at(self._anchor).add(op, *args)
        return self._made[key]

    def _marks(self, width: int | None = None) -> Node:
        return self._once(RowMarks(width), self.rows.matrix, self.rows.shape)

    def _padded(self, values: Node, fill: Const, width: int | None = None) -> Node:
        return self._once(PadRows(fill, width), self.rows.matrix, self.rows.shape, values)

    def flat(self, view: Node) -> None:
        """Every place is a row: the elements are those of padded rows that the marks keep."""
        reshape, _ = item_of(view)
        kept, leaves = self._kept(reshape, args_of(reshape)[2])
        self.editor.record(view, True, "every place is a row: at most one element each, in the order of places")
        self.editor.graph.replace(view, kept)
        self._move(kept, leaves)

    def dense(self, node: Node) -> None:
        """Values spread over their places."""
        _, shape, values, default = args_of(node)
        new = self.editor.at(node).add(Reshape(), self._spread(node, values, default), shape)
        self.editor.record(node, True, "values keep their places in padded rows")
        self.editor.graph.replace(node, new)

    def ragged(self, node: Node) -> bool:
        """The same of rows that splits say; vectors that were looked up are looked up for the places."""
        _, values, default = args_of(node)
        op = op_of(node)
        assert isinstance(op, RaggedToDense)
        if op.width == 0:
            self.editor.record(node, False, "rows are cut to no places")
            return False
        if facts_of(values).rank == 1:
            flat = self._spread(node, values, default, op.width)
            new = self.editor.at(node).add(Reshape(), flat, self._shape(node, op.width))
        else:
            found = self._vectors(node, values, default, op.width)
            if isinstance(found, Reject):
                self.editor.record(node, False, found.reason)
                return False
            new = found
        self.editor.record(node, True, "values keep their places in padded rows")
        self.editor.graph.replace(node, new)
        return True

    def _shape(self, node: Node, width: int | None) -> Node:
        """Rows and places."""
        return self.rows.shape if width is None else self.editor.at(node).constant(np.array([-1, width]))

    def _spread(self, node: Node, values: Node, default: Node, width: int | None = None) -> Node:
        """All places as a vector."""
        fill = op_of(default)
        if values in self.rows.values and isinstance(fill, Constant) and fill.value.array.size == 1:
            return self._padded(values, Const(fill.value.array.reshape(())), width)
        kept, leaves = self._kept(node, width=width)
        edit = self.editor.at(node)
        moved = Moved(edit, leaves)(values)
        return edit.add(SparseToDense(), kept, edit.add(Shape("int64"), self._marks(width)), moved, default)

    def _vectors(self, node: Node, values: Node, default: Node, width: int | None) -> Node | Reject:
        """Rows of a table for places, zeros where there is no element."""
        fill, sizes = splat(default), facts_of(values).shape
        if not isinstance(values.target, Gather) or sizes is None or len(sizes) != 2 or not isinstance(sizes[1], int):
            return Reject("what is padded are no elements, and no rows of a table")
        table, ids, axis = args_of(values)
        if fill is None or fill.tobytes() != np.zeros((), fill.dtype).tobytes() or facts_of(axis).integer != 0:
            return Reject("vectors are padded with something else than zeros")
        if facts_of(ids).rank != 1 or facts_of(table).rank != 2 or facts_of(table).dtype != "float32":
            return Reject("vectors are no rows of a table of float32, one an element")
        kept, leaves = self._kept(node, width=width)
        edit = self.editor.at(node)
        moved, zero = Moved(edit, leaves)(ids), edit.constant(np.int32(0))
        count = edit.add(Gather(), edit.add(Shape("int64"), self._marks(width)), zero, zero)
        bag = edit.add(EmbeddingBag("sum"), table, moved, column(edit, kept, 0), count)
        shape = edit.add(Concat(), self._shape(node, width), edit.constant(np.array([sizes[1]])), zero)
        return edit.add(Reshape(), bag, shape)

    def _kept(self, anchor: Node, shape: Node | None = None, width: int | None = None) -> tuple[Node, dict[Node, Node]]:
        """The indices of places with an element, in front of a node, and by values those that stand there."""
        padded = {v: self._padded(v, _nothing(v), width) for v in self.rows.values}
        marks = self._marks(width)
        edit = self.editor.at(anchor)

        def cut(x: Node) -> Node:
            return x if shape is None else edit.add(Reshape(), x, shape)

        kept = edit.add(Where(), edit.add(Compare("ne"), cut(marks), edit.constant(np.int64(0))))
        return kept, {v: edit.add(GatherNd(), cut(p), kept) for v, p in padded.items()}

    def lengths(self, node: Node, total: Node) -> None:
        """Lengths of all rows at once."""
        ends = self._once(RowEnds(), self.rows.matrix, self.rows.shape)
        edit = self.editor.at(node)
        if facts_of(ends).dtype != facts_of(total).dtype:
            ends = edit.add(Cast(facts_of(total).dtype), ends)
        whole = args_of(node)[0]
        new = ends if _is_unchanged(whole, total) else _again(edit, whole, total, ends)
        self.editor.record(node, True, "a row without elements has the length 0, the last ones as well")
        self.editor.graph.replace(node, new)

    def _move(self, kept: Node, leaves: dict[Node, Node]) -> None:
        """Let what reads the rows of places read the elements there, too."""
        rows, moved = behind([kept]), Moved(self.editor, leaves)
        for node in list(self.editor.graph.nodes()):
            if node not in rows or node is kept:
                continue
            self.editor.at(node)
            for arg in dict.fromkeys(args_of(node)):
                if arg not in rows and arg in moved.cone:
                    node.replace_input_with(arg, moved(arg))


def _nothing(values: Node) -> Const:
    """What stands in places without an element."""
    dtype = facts_of(values).dtype
    if dtype == "string":
        empty = np.empty((), object)
        empty[()] = b""
        return Const(empty)
    return Const(np.zeros((), dtype))


def _is_unchanged(node: Node, total: Node) -> bool:
    """Whether a chain on sizes of tensors, which float64 holds exactly, changes none: casts, ceil and division by 1."""
    wanted = facts_of(total).dtype
    if facts_of(node).dtype != wanted:
        return False
    while node is not total:
        exact = facts_of(node).dtype in ("float64", wanted)
        by = splat(args_of(node)[1]) if isinstance(node.target, RealDiv) else None
        if not exact or not (isinstance(node.target, Cast | Ceil) or (by is not None and by == 1)):
            return False
        node = args_of(node)[0]
    return True


def _again(editor: Editor, node: Node, old: Node, new: Node) -> Node:
    """A chain of elementwise ops on another value."""
    if node is old:
        return new
    op = op_of(node)
    assert op is not None
    return editor.add(op, *(_again(editor, a, old, new) if splat(a) is None else a for a in args_of(node)))
