"""`check-unknown`: that every key is known is checked where its id is looked up."""

from __future__ import annotations

from dataclasses import replace

from colonnade.core import dims
from colonnade.core.expr import Apply, Expr, walk
from colonnade.ir.column import Column
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.decoded import decoded_names
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.cast import BOUNDS, Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.guard import Guard
from colonnade.ops.graph.shape_construct import ShapeConstruct
from colonnade.ops.graph.size import Size
from colonnade.ops.graph.where import Where
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.vocabulary import Vocabulary
from colonnade.ops.wrap_negative import WrapNegative
from colonnade.passes.base import Editor, Pass, Reject
from colonnade.passes.domains import Dense
from colonnade.passes.elements import Reader
from colonnade.passes.splat import whole

NOWHERE = -(2**62) - 2**31
"""The id of an unknown key: outside every table, also as an int32 and counted from the end of a table."""


class CheckUnknown(Pass):
    """An assertion that all keys are known is the check that ids lie in their table.

    Legal: what is asserted is `size(where(ids == u)) == 0`, with u the value of unknown keys, and of no other, in one
    vocabulary over all elements of a field; columns look up all these elements and drop none that is unknown. Unknown
    keys then get an id that lies in no table: an error under the policy of ids outside.
    """

    def run(self, editor: Editor) -> int:
        """Try every guard."""
        reader = Reader(decoded_names(editor.graph))
        changed = 0
        for guard in list(editor.graph.nodes()):
            ids = _asserted(guard)
            if ids is None:
                continue
            found = _vocabulary(reader, *ids)
            columns = found if isinstance(found, Reject) else _checking(editor, found)
            if isinstance(columns, Reject):
                editor.record(guard, False, columns.reason)
                continue
            assert isinstance(found, Apply)
            for node in columns:
                _make_strict(editor, node, found)
            editor.record(guard, True, f"{len(columns)} column(s) look up every id and refuse that of an unknown key")
            editor.graph.replace(guard, args_of(guard)[0])
            changed += 1
        return changed


def _asserted(guard: Node) -> tuple[Node, int] | None:
    """ids and u, where the guard asserts that no id is u."""
    if not isinstance(guard.target, Guard):
        return None
    condition = args_of(guard)[1]
    none = _equals(condition)
    if none is None or none[1] != 0 or not _is_count(none[0]):
        return None
    places = args_of(none[0])[0]
    return _equals(args_of(places)[0]) if isinstance(places.target, Where) else None


def _is_count(node: Node) -> bool:
    """Whether it is the size of the index matrix that is its first operand, which has a column or more."""
    op = op_of(node)
    if not isinstance(op, ShapeConstruct | Size):
        return False
    shape = facts_of(args_of(node)[0]).shape
    if shape is None or len(shape) != 2 or not isinstance(shape[1], int) or shape[1] < 1:
        return False
    if isinstance(op, Size):
        return True
    if len(op.exprs) != 1 or [(operand, axis) for _, operand, axis in op.symbols] != [(0, 0)]:
        return False
    return bool(dims.parse(op.exprs[0]) == dims.mul(shape[1], dims.symbol(op.symbols[0][0])))


def _equals(node: Node) -> tuple[Node, int] | None:
    """x and v of `x == v`."""
    op = op_of(node)
    if not isinstance(op, Compare) or op.kind != "eq":
        return None
    x, other = args_of(node)
    value = whole(other)
    return (x, value) if isinstance(value, int) and facts_of(x).shape == facts_of(node).shape else None


def _vocabulary(reader: Reader, ids: Node, unknown: int) -> Apply | Reject:
    """The vocabulary that gives the ids."""
    read = reader.elements(ids)
    if isinstance(read, Reject):
        return read
    expr = read.expr
    if not isinstance(expr, Apply) or not isinstance(expr.op, Vocabulary) or not isinstance(read.domain, Dense):
        return Reject("what is asserted is not about a vocabulary over all elements of a field")
    if expr.op.num_oov or expr.op.default != unknown or bool((expr.op.values.array == unknown).any()):
        return Reject(f"{unknown} is not what unknown keys, and only they, get")
    return expr


def _checking(editor: Editor, expr: Apply) -> list[Node] | Reject:
    """The columns of these ids, each of which refuses unknown keys once they have no row."""
    found = []
    for node in editor.graph.nodes():
        op = op_of(node)
        if isinstance(op, ColumnValue) and any(expr in walk(e) for e in _exprs(op.column)):
            if not _refuses(op.column, expr):
                return Reject(f"column {op.column.name} may answer where a key is unknown")
            found.append(node)
    return found or Reject("no column looks these ids up")


def _exprs(column: Column) -> tuple[Expr, ...]:
    return (column.ids, *column.filters, *([] if column.weights is None else [column.weights]))


def _refuses(column: Column, expr: Apply) -> bool:
    """Whether an id of NOWHERE is looked up by the column, and lies outside."""
    at = column.ids
    while at is not expr:
        if not isinstance(at, Apply) or not isinstance(at.op, WrapNegative | Cast):
            return False
        if isinstance(at.op, Cast) and at.op.to not in BOUNDS:
            return False
        at = at.args[0]
    return column.weights is None and all(_keeps(f, expr) or _is_bound(f, expr) for f in column.filters)


def _keeps(predicate: Expr, expr: Apply) -> bool:
    """Whether an unknown key, or NOWHERE, passes a filter."""
    if not isinstance(predicate, Apply):
        return False
    op = predicate.op
    if predicate.args == expr.args:
        assert isinstance(expr.op, Vocabulary)
        return isinstance(op, NotEqual) and op.value in expr.op.keys.array.tolist()
    if predicate.args != (expr,):
        return False
    return (isinstance(op, AtMost) and op.bound >= NOWHERE) or (isinstance(op, NotEqual) and op.value != NOWHERE)


def _is_bound(predicate: Expr, expr: Apply) -> bool:
    """Whether a filter drops unknown keys and no others: what was asserted says that there are none."""
    if not isinstance(predicate, Apply) or predicate.args != (expr,) or not isinstance(predicate.op, AtLeast):
        return False
    values = expr.op.values.array
    return not len(values) or predicate.op.bound <= int(values.min())


def _make_strict(editor: Editor, node: Node, expr: Apply) -> None:
    """The column with ids of unknown keys that lie in no table."""
    op = op_of(node)
    assert isinstance(op, ColumnValue)
    column = op.column
    strict = Apply(replace(expr.op, default=NOWHERE), *expr.args)
    kept = [f for f in column.filters if not _is_bound(f, expr)]
    made = replace(
        column,
        ids=_with(column.ids, expr, strict),
        filters=tuple(_with(f, expr, strict) for f in kept),
        ids_proven=False,
    )
    editor.graph.replace(node, editor.at(node).add(replace(op, column=made), *args_of(node)))


def _with(expr: Expr, old: Expr, new: Expr) -> Expr:
    if expr is old:
        return new
    return Apply(expr.op, *(_with(arg, old, new) for arg in expr.args)) if isinstance(expr, Apply) else expr
