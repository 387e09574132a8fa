"""`clip-tables`: rows that are scaled to a norm after they were looked up are rows of a scaled table."""

from __future__ import annotations

from colonnade.core.consts import Const
from colonnade.core.row_sums import MOST
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ir.made_table import made_of
from colonnade.ops.graph.clip_rows import ClipRows
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.sum import Sum
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.splat import splat


class ClipTables(Rewrite):
    """`x * c / max(norm of x, c)` of looked up rows x is a lookup in the table whose rows are so scaled.

    Legal: the norm is that of each row by itself, over all of the row; c is one positive constant. A row then depends
    on itself alone, and the same float32 arithmetic is done to it once, when the model is compiled.
    """

    roots = (RealDiv,)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """The quotient of a product and a maximum with one constant."""
        scaled, longest = args_of(node)
        if not isinstance(longest.target, Maximum):
            return None
        for norm, constant in (args_of(longest), args_of(longest)[::-1]):
            bound = splat(constant)
            rows = None if bound is None else _normed(norm)
            if rows is not None and bound is not None:
                break
        else:
            return None
        if not isinstance(rows.target, Gather):
            return None
        if not 0 < float(bound) < float("inf") or _factor(scaled, rows) != float(bound):
            return Reject("rows are not multiplied by the norm that they must not exceed")
        table, ids, axis = args_of(rows)
        op, known = op_of(rows), facts_of(table)
        assert isinstance(op, Gather)
        if op.batch_dims or facts_of(axis).integer != 0 or known.dtype != "float32":
            return Reject("rows are not gathered along axis 0 of a float32 table")
        if known.shape is None or len(known.shape) != 2 or not isinstance(known.shape[1], int):
            return Reject("the table is no matrix of rows of known length")
        if known.shape[1] > MOST:
            return Reject(f"the sum of a row of more than {MOST} numbers depends on where it lies")
        clip = ClipRows(float(bound))
        if isinstance(table.target, Constant):
            made = editor.add(Constant(Const(clip.rows(table.target.value.array))))
        elif made_of(table) is not None:
            made = editor.add(clip, table)
        else:
            return Reject("the table is not made of variables or a constant")
        proof = f"each row is scaled to a norm of at most {float(bound)!r} by itself, whatever looks it up"
        return Rewritten(editor.add(op, made, ids, axis), proof)


def _normed(norm: Node) -> Node | None:
    """x where the node is `select(s > 0, sqrt(select(s > 0, s, 1)), s)`, s the sum of x * x over each row."""
    if not isinstance(norm.target, Select):
        return None
    positive, root, total = args_of(norm)
    if not isinstance(root.target, Sqrt) or not isinstance(total.target, Sum) or not _is_positive(positive, total):
        return None
    (safe,) = args_of(root)
    if safe is not total:
        if not isinstance(safe.target, Select):
            return None
        again, same, other = args_of(safe)
        if same is not total or not _is_positive(again, total) or splat(other) is None:
            return None
    squares, axes = args_of(total)
    if not isinstance(squares.target, Mul) or not total.target.keep_dims:
        return None
    x, same = args_of(squares)
    rank = facts_of(x).rank
    if x is not same or rank is None or facts_of(axes).ints not in ((rank - 1,), (-1,)):
        return None
    return x


def _is_positive(node: Node, total: Node) -> bool:
    op = op_of(node)
    if not isinstance(op, Compare) or op.kind != "gt" or args_of(node)[0] is not total:
        return False
    zero = splat(args_of(node)[1])
    return zero is not None and float(zero) == 0


def _factor(scaled: Node, rows: Node) -> float | None:
    """What rows are multiplied by."""
    if scaled is rows:
        return 1.0
    if not isinstance(scaled.target, Mul):
        return None
    for x, constant in (args_of(scaled), args_of(scaled)[::-1]):
        factor = splat(constant)
        if x is rows and factor is not None:
            return float(factor)
    return None
