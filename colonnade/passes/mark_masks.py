"""`mark-masks`: comparisons of words, and of what is looked up by them, that the dense rest reads are columns."""

from __future__ import annotations

import numpy as np

from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field, walk
from colonnade.ir.decoded import decoded_names
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.vocabulary import Vocabulary
from colonnade.ops.vocabulary import Vocabulary as VocabularyColumn
from colonnade.passes.base import Editor, Pass
from colonnade.passes.domains import Dense, Elements, Open
from colonnade.passes.elements import Reader
from colonnade.passes.extract_columns import extract
from colonnade.passes.splat import whole

EXACT = 2**24
"""Integers up to here are float32 numbers, of which boundaries are; the next one below the least rounds up to it."""


class MarkMasks(Pass):
    """`compare(x, constant)`, x words or ids looked up by words, is the lookup of 0 or 1, compared with 0.

    Legal: x is of all elements of fields, in order, and the constant is one value; a bound lies above -2^24 and within
    2^24.
    Only what the dense rest cannot compute itself is marked: fields of strings, and vocabularies.
    """

    def run(self, editor: Editor) -> int:
        """Every comparison that is left: those that columns filter by are gone.

        The last ones first: what one is made of may be read by nothing else.
        """
        changed, alive = 0, set(editor.graph.nodes())
        for node in reversed([n for n in editor.graph.nodes() if isinstance(n.target, Compare)]):
            op = op_of(node)
            if isinstance(op, Compare) and node in alive and _is_apart(node, editor):
                changed += _marked(node, op, editor.at(node))
                editor.graph.prune()
                alive = set(editor.graph.nodes())
        return changed


def _is_apart(node: Node, editor: Editor) -> bool:
    """Whether the dense rest has not what is compared, and a column has it."""
    reader, x = Reader(decoded_names(editor.graph)), args_of(node)[0]
    read, shape = reader.elements(x), facts_of(x).shape
    if not isinstance(read, Elements) or not isinstance(read.domain, Dense | Open) or not shape:
        return False
    if facts_of(x).size != read.domain.size or shape != facts_of(node).shape:
        return False
    dtypes, parts = reader.dtypes(), list(walk(read.expr))
    words = any(isinstance(e, Field) and dtypes[e.name] == "string" for e in parts)
    return words or any(isinstance(e, Apply) and isinstance(e.op, VocabularyColumn) for e in parts)


def _marked(node: Node, op: Compare, editor: Editor) -> int:
    x, other = args_of(node)
    found = _numbered(op.kind, x, whole(other), editor)
    if found is None:
        return 0
    ids, marks = found
    table = editor.constant(np.array(marks, np.float32).reshape(2, 1))
    row = editor.add(Gather(), table, ids, editor.constant(np.array(0, np.int32)))
    rank = len(facts_of(x).shape or ())
    mark = editor.add(Squeeze((rank,)), row)
    made = editor.add(Compare("ne"), mark, editor.constant(np.array(0, np.float32)))
    if not extract(editor, [row]):
        return 0
    editor.record(node, True, "each element is one of two numbers, by its own value alone")
    editor.graph.replace(node, made)
    return 1


def _numbered(kind: str, x: Node, value: object, editor: Editor) -> tuple[Node, tuple[int, int]] | None:
    """Ids 0 and 1 by what an element is, and what each says of it."""
    dtype = facts_of(x).dtype
    if kind in ("eq", "ne") and isinstance(value, bytes | int) and not isinstance(value, bool):
        if (dtype == "string") != isinstance(value, bytes) or dtype not in ("string", "int32", "int64"):
            return None
        keys = np.array([value], object if isinstance(value, bytes) else np.int64)
        wide = editor.add(Cast("int64"), x) if dtype == "int32" else x
        found = editor.add(Vocabulary(Const(keys), Const(np.array([0])), 1), wide)
        return found, (0, 1) if kind == "ne" else (1, 0)
    if kind not in ("ge", "gt", "lt", "le") or dtype not in ("int32", "int64") or not isinstance(value, int):
        return None
    bound = value + (kind in ("gt", "le"))
    if not -EXACT < bound <= EXACT:
        return None
    found = editor.add(Bucketize(Const(np.array([bound], np.float32))), x)
    return found, (0, 1) if kind in ("ge", "gt") else (1, 0)
