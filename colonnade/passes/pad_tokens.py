"""`pad-tokens`: tokens in rows as long as the longest, which no mask cuts, are strings that the host splits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from colonnade.ir.decoded import decoded_names
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.rows_to_dense import RowsToDense
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.split_rows import SplitRows
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.domains import Elements
from colonnade.passes.elements import Reader, at, one_of
from colonnade.passes.host_strings import as_given, strings_of
from colonnade.passes.indices import column_of
from colonnade.passes.moved import Moved, behind
from colonnade.passes.splat import splat, whole

MOVING = (Reshape, Gather)
"""Ops that say themselves what they do to elements, but of a vector."""


class PadTokens(Rewrite):
    """`rows_to_dense` of the tokens of input strings, or of what is looked up by them, is read of `split_rows`.

    Legal: rows are those of all tokens of one splitting, whose strings the host makes of inputs; what becomes of the
    tokens looks at each by itself. What stands behind a row is an empty token where that is proven to become the same;
    else it is the separator, which no token is, and a mask puts the default in its place.
    """

    roots = (RowsToDense,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """By what the values are."""
        op, (rows, values, default, _) = op_of(node), args_of(node)
        assert isinstance(op, RowsToDense)
        found = column_of(rows)
        split, output = item_of(found[0]) if found is not None else (rows, 0)
        if found is None or found[1] != 0 or not isinstance(split.target, StringSplit) or output != 0:
            return None
        (given,) = args_of(split)
        text = as_given(given)
        made, strings, shape = strings_of(text, lambda x: x.name), facts_of(given).shape, facts_of(node).shape
        if isinstance(made, Reject):
            return made
        if not strings or not shape or strings[0] != shape[0]:
            return Reject("rows are not proven to be those of the strings")
        maker = _Maker(editor, split, text, op.width)
        new = (
            maker.vectors(node, values, default)
            if facts_of(values).rank == 2
            else maker.elements(node, values, default)
        )
        if isinstance(new, Reject):
            return new
        return Rewritten(new, "every string is a row, and tokens keep their places in it")


class _Maker:
    def __init__(self, editor: Editor, split: Node, text: Node, width: int | None) -> None:
        self.editor = editor
        self.text = text
        self.tokens = editor.item(split, 1)
        self.width = width
        op = op_of(split)
        assert isinstance(op, StringSplit)
        self.op = op

    def rows(self, fill: bytes) -> Node:
        """The tokens in rows; the same ones twice are one node."""
        made = [n for n in self.editor.graph.nodes() if isinstance(n.target, SplitRows)]
        for node in made:
            op = op_of(node)
            assert isinstance(op, SplitRows)
            key = (op.separator, op.skip_empty, op.fill, op.width)
            if key == (self.op.separator, self.op.skip_empty, fill, self.width) and args_of(node) == (self.text,):
                return node
        symbol = self._symbol(made)
        op = SplitRows(self.op.separator, self.op.skip_empty, fill, symbol, self.width)
        return self.editor.at(self.text.next).add(op, self.text)

    def _symbol(self, made: list[Node]) -> str:
        """Rows of the same tokens have as many places, whatever stands behind them."""
        for node in made:
            op = op_of(node)
            assert isinstance(op, SplitRows)
            same = (op.separator, op.skip_empty) == (self.op.separator, self.op.skip_empty)
            if same and op.width is None and args_of(node) == (self.text,):
                return op.symbol
        return f"k{len(made)}"

    def elements(self, node: Node, values: Node, default: Node) -> Node | Reject:
        """`[B, T]`, by what the values make of each token."""
        fill = whole(default)
        if facts_of(values).rank != 1 or fill is None:
            return Reject("what stands behind rows is not one constant, or values are no vector")
        if values is self.tokens:
            assert isinstance(fill, bytes)
            return self.rows(fill)
        reason = self._reason(values)
        if reason is not None:
            return Reject(reason)
        if self._of_empty(values) == fill:
            rows = self.rows(b"")
            return Moved(self.editor.at(node), {self.tokens: rows})(values)
        kept, leaves, marked = self._kept(node)
        edit = self.editor.at(node)
        return edit.add(SparseToDense(), kept, edit.add(Shape("int64"), marked), Moved(edit, leaves)(values), default)

    def vectors(self, node: Node, values: Node, default: Node) -> Node | Reject:
        """`[B, T, D]`: rows of a table for places, zeros where there is no token."""
        fill, sizes = splat(default), facts_of(values).shape
        if not isinstance(values.target, Gather) or sizes is None or not isinstance(sizes[1], int):
            return Reject("what is padded are no tokens, and no rows of a table")
        table, ids, axis = args_of(values)
        if fill is None or fill.tobytes() != np.zeros((), fill.dtype).tobytes() or facts_of(axis).integer != 0:
            return Reject("vectors are padded with something else than zeros")
        rows = facts_of(table).shape
        if facts_of(ids).rank != 1 or not rows or rows[0] == 0 or facts_of(table).dtype != "float32":
            return Reject("vectors are no rows of a table of float32, one a token")
        reason = self._reason(ids)
        if reason is not None:
            return Reject(reason)
        kept, leaves, marked = self._kept(node)
        edit = self.editor.at(node)
        zero, last = edit.constant(np.array(0, facts_of(ids).dtype)), edit.constant(np.int32(2))
        spread = edit.add(SparseToDense(), kept, edit.add(Shape("int64"), marked), Moved(edit, leaves)(ids), zero)
        held = edit.add(ExpandDims(), args_of(kept)[0], last)
        return edit.add(Select(), held, edit.add(Gather(), table, spread, axis), edit.constant(np.float32(0)))

    def _kept(self, node: Node) -> tuple[Node, Mapping[Node, Node], Node]:
        """The indices of places with a token, those that stand there by the tokens themselves, and all places."""
        rows = self.rows(self.op.separator)
        edit = self.editor.at(node)
        kept = edit.add(Where(), edit.add(Compare("ne"), rows, _word(edit, self.op.separator)))
        return kept, {self.tokens: edit.add(GatherNd(), rows, kept)}, rows

    def _reason(self, values: Node) -> str | None:
        """Why values are not proven to be made of each token by itself."""
        reader = Reader(decoded_names(self.editor.graph))
        read, of = reader.elements(values), reader.elements(self.tokens)
        if isinstance(read, Reject) or isinstance(of, Reject):
            return (read if isinstance(read, Reject) else of).reason  # type: ignore[union-attr]
        if read.domain != of.domain:
            return "values are not proven to be of all tokens"
        cone, stack = behind([self.tokens]), [values]
        while stack:
            node = stack.pop()
            if node is self.tokens:
                continue
            if isinstance(node.target, MOVING) or facts_of(node).shape != facts_of(self.tokens).shape:
                return f"tokens go through {op_of(node) or node}, which looks at more than each"
            inner = [arg for arg in args_of(node) if arg in cone]
            if any(facts_of(arg).rank != 0 and whole(arg) is None for arg in args_of(node) if arg not in cone):
                return "tokens meet values of their own"
            stack += inner
        return None

    def _of_empty(self, values: Node) -> object:
        """What becomes of an empty token; None where that is not known."""
        reader = Reader(decoded_names(self.editor.graph))
        read, of = reader.elements(values), reader.elements(self.tokens)
        assert isinstance(read, Elements) and isinstance(of, Elements)
        made = at(read.expr, of.expr, one_of(b"", "string"))
        return None if made is None else made.reshape(-1)[0].item()


def _word(editor: Editor, word: bytes) -> Node:
    made = np.empty((), object)
    made[()] = word
    return editor.constant(made)
