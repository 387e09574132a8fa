"""`pool-places`: rows of a dense matrix of ids, looked up and summed over its places, are pooled."""

from __future__ import annotations

import numpy as np

from colonnade.core.consts import Const
from colonnade.core.expr import Apply
from colonnade.ir.decoded import decoded_names
from colonnade.ir.element_facts import element_facts
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ir.made_table import made_of
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.embedding_bag import Pooling
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.mean import Mean
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sum import Sum
from colonnade.ops.graph.vocabulary import Vocabulary
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.wrap_negative import WrapNegative
from colonnade.passes.bags import bag
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.domains import Dense, Padded
from colonnade.passes.elements import Reader
from colonnade.passes.splat import splat


class PoolPlaces(Rewrite):
    """The sum or mean over the places of `table[ids]`, ids `[B, T]`, is an embedding bag; so is what a mask keeps.

    Legal: ids are those of all elements of a dense field, T >= 1 is known, the sum is over the places alone; or ids are
    those of rows of differing lengths, and a mask is proven to drop what they are padded with. A mask puts zeros in the
    place of rows (a sum without them), or is itself counted; an id that it drops is proven to be in the table, where
    looking it up is no error. Sums are added in the order of an embedding bag: the last bits may
    differ.
    """

    roots = (Sum, Mean)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """By what is summed."""
        x, axes = args_of(node)
        op = op_of(node)
        assert isinstance(op, Sum | Mean)
        if facts_of(x).rank != 3 or facts_of(axes).ints not in ((1,), (-2,)) or op.keep_dims:
            return None
        pooling: Pooling = "sum" if isinstance(op, Sum) else "mean"
        if isinstance(x.target, Gather):
            return _pooled(x, pooling, None, editor)
        if isinstance(x.target, Select) and pooling == "sum":
            return _kept(x, editor)
        if isinstance(x.target, Cast) and pooling == "sum":
            return _counted(x, editor)
        return None


def _pooled(gather: Node, pooling: Pooling, mask: Node | None, editor: Editor) -> Rewritten | Reject | None:
    table, ids, axis = args_of(gather)
    op = op_of(gather)
    assert isinstance(op, Gather)
    if made_of(table) is None or facts_of(table).rank != 2 or facts_of(axis).integer != 0:
        return None
    if op.batch_dims or facts_of(ids).rank != 2:
        return None
    reason = _unread(ids, mask, editor)
    if reason is None and mask is not None:
        reason = _unmasked(table, ids, mask, editor)
    if reason is not None:
        return Reject(reason)
    return Rewritten(bag(editor, pooling, table, ids, mask), "every place of a row adds its row of the table")


def _kept(select: Node, editor: Editor) -> Rewritten | Reject | None:
    """`select(mask[:, :, None], table[ids], 0)`."""
    cond, rows, other = args_of(select)
    mask, zero = _spread(cond), splat(other)
    if mask is None or not isinstance(rows.target, Gather) or zero is None or zero != 0:
        return None
    if facts_of(rows).shape != facts_of(select).shape:
        return None
    return _pooled(rows, "sum", mask, editor)


def _counted(cast: Node, editor: Editor) -> Rewritten | Reject | None:
    """`cast(mask[:, :, None], float32)`: how many places of a row the mask keeps, `[B, 1]`."""
    mask = _spread(args_of(cast)[0])
    if mask is None or facts_of(cast).dtype != "float32" or not isinstance(mask.target, Compare):
        return None
    ids = args_of(mask)[0]
    if facts_of(ids).dtype not in ("int32", "int64") or facts_of(ids).shape != facts_of(mask).shape:
        return None
    reason = _unread(ids, mask, editor)
    if reason:
        return Reject(reason)
    if not _is_filter(mask, editor):
        return Reject("the mask is no filter of the ids' field")
    none = Const(np.zeros(0, np.int64))
    wide = ids if facts_of(ids).dtype == "int64" else editor.add(Cast("int64"), ids)
    zeros = editor.add(Vocabulary(none, none, 0), wide)
    ones = editor.constant(np.ones((1, 1), np.float32))
    return Rewritten(bag(editor, "sum", ones, zeros, mask), "every place that the mask keeps adds 1")


def _spread(node: Node) -> Node | None:
    """The `[B, T]` mask behind `[B, T, 1]`."""
    if facts_of(node).dtype != "bool" or not isinstance(node.target, ExpandDims):
        return None
    mask, axis = args_of(node)
    return mask if facts_of(mask).rank == 2 and facts_of(axis).integer in (2, -1) else None


def _is_filter(mask: Node, editor: Editor) -> bool:
    return not isinstance(Reader(decoded_names(editor.graph)).masks(mask), Reject)


def _unmasked(table: Node, ids: Node, mask: Node, editor: Editor) -> str | None:
    """Why a mask may not drop ids before they are looked up."""
    if facts_of(mask).shape != facts_of(ids).shape:
        return "the mask is not proven to be over the ids' places"
    reader = Reader(decoded_names(editor.graph))
    read, masks, shape = reader.elements(ids), reader.masks(mask), facts_of(table).shape
    if isinstance(masks, Reject) or isinstance(read, Reject) or shape is None or not isinstance(shape[0], int):
        return "the mask is no filter of the ids' field"
    if isinstance(read.domain, Padded):
        behind = reader.padding(read.expr, read.domain)
        if behind is None or not 0 <= int(behind[0]) < shape[0]:
            return "what rows are padded with is not proven to be in the table"
    known = element_facts(read.expr, reader.dtypes())
    if known.lo is not None and known.hi is not None and known.lo >= 0 and known.hi < shape[0]:
        return None
    expr = read.expr
    if isinstance(expr, Apply) and isinstance(expr.op, WrapNegative):
        (expr,) = expr.args
    for predicate in masks[0]:
        value = predicate.op.value if isinstance(predicate, Apply) and isinstance(predicate.op, NotEqual) else None
        if not isinstance(value, int) or not 0 <= value < shape[0] or predicate.args != (expr,):  # type: ignore[attr-defined]
            return "an id that the mask drops is not proven to be in the table"
    return None


def _unread(ids: Node, mask: Node | None, editor: Editor) -> str | None:
    """Why ids are not those of all elements of a dense field, or of padded rows that a mask cuts, a batch row each."""
    reader = Reader(decoded_names(editor.graph))
    read = reader.elements(ids)
    if isinstance(read, Reject):
        return read.reason
    if isinstance(read.domain, Padded) and mask is not None:
        masks = reader.masks(mask)
        if isinstance(masks, Reject) or masks[1] != read.domain:
            return "the mask is no filter of the ids' field"
        kept = reader.kept_of(read.domain, masks[0])
        return kept.reason if isinstance(kept, Reject) else None
    rows, places = facts_of(ids).shape or (0, 0)
    if not isinstance(places, int) or places < 1:
        return "the number of places is not known to be at least 1"
    if not isinstance(read.domain, Dense) or (read.domain.rows, read.domain.width) != (rows, places):
        return "the ids are not proven to be those of all elements of a field"
    return None
