"""What reads the places of elements in rows of differing lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ir.graph import Graph, Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph._elementwise import Binary, Unary
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.one_hot import OneHot
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.ragged_to_dense import RaggedToDense
from colonnade.ops.graph.segment_max import SegmentMax
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.passes.base import Editor
from colonnade.passes.indices import column_of
from colonnade.passes.splat import splat

Sizes = tuple[Dim, ...]


@dataclass(frozen=True)
class Rows:
    """Rows of differing lengths: the op that makes them, their index matrix, dense shape and values."""

    base: Node
    matrix: Node
    shape: Node
    values: tuple[Node, ...]

    @property
    def sizes(self) -> Sizes:
        """Rows and width."""
        found = facts_of(self.shape).values
        assert found is not None and len(found) == 2
        return found


@dataclass
class Uses:
    """What reads places: reshapes that make every place a row, dense tensors by indices and by splits, and lengths."""

    flat: list[Node]
    dense: list[Node]
    ragged: list[Node]
    lengths: list[tuple[Node, Node]]

    def __bool__(self) -> bool:
        return bool(self.flat or self.dense or self.ragged or self.lengths)


def rows_of(editor: Editor, base: Node) -> list[Rows | None]:
    """The ragged matrices of an op; None where nothing reads one's indices or splits."""
    op = op_of(base)
    if isinstance(op, RaggedInput) and op.by != "indices" and _padded_by(base):
        for k in (0, op.num_outputs - 1):
            editor.item(base, k)
    items = {item_of(user)[1]: user for user in base.users if item_of(user)[0] is base}
    if isinstance(op, RaggedInput):
        values = tuple(items[k] for k in range(1, op.num_values + 1) if k in items)
        known = (
            None
            if op.trimmed or None in (op.rows, op.width) or 0 not in items or op.num_outputs - 1 not in items
            else items[0]
        )
        return [None if known is None else Rows(base, known, items[op.num_outputs - 1], values)]
    assert isinstance(op, ParseExample)
    places = {op.place(k): items[k] for k in items}
    return [
        Rows(base, places[f, "indices"], places[f, "shape"], tuple(v for v in (places.get((f, "values")),) if v))
        if (f, "indices") in places and (f, "shape") in places
        else None
        for f in op.of("sparse")
    ]


def _padded_by(base: Node) -> list[Node]:
    """What makes a dense tensor of rows by the splits that an op takes."""
    op, splits = op_of(base), [args_of(base)[0]]
    if not isinstance(op, RaggedInput) or op.by == "indices":
        return []
    if op.by == "nested":
        splits = _joined(*args_of(base)[:2])
    return [user for each in splits for user in each.users if _pads_by(user, each)]


def _pads_by(node: Node, splits: Node) -> bool:
    return isinstance(node.target, RaggedToDense) and args_of(node)[0] is splits


def _joined(outer: Node, inner: Node) -> list[Node]:
    """`inner[outer]`, and what casts it."""
    found = [n for n in inner.users if isinstance(n.target, Gather) and args_of(n)[:2] == (inner, outer)]
    for node in list(found):
        found += [user for user in node.users if isinstance(user.target, Cast) and _is_index(user)]
    return found


def _is_index(node: Node) -> bool:
    return facts_of(node).dtype in ("int32", "int64")


def uses_of(graph: Graph, rows: Rows) -> Uses:
    """What reads places of these rows."""
    found = Uses([], [], [], [])
    if facts_of(rows.shape).values is None:
        return found
    views = dict(_views(rows))
    count, width = rows.sizes
    flat = (dims.mul(count, width), 1)
    for view, sizes in views.items():
        if sizes == flat and view is not rows.matrix:
            found.flat.append(view)
            continue
        for user in view.users:
            if isinstance(user.target, SparseToDense) and args_of(user)[0] is view and _is_spread(user, sizes):
                found.dense.append(user)
    found.ragged += _padded_by(rows.base)
    for node in graph.nodes():
        if isinstance(node.target, Concat):
            total = _length_behind(node, views, count)
            if total is not None:
                found.lengths.append((node, total))
    return found


def _views(rows: Rows) -> Iterator[tuple[Node, Sizes]]:
    """The index matrix, and what it is cut to without another place for an element, with the sizes."""
    count, width = rows.sizes
    flat = (dims.mul(count, width), 1)
    stack: list[tuple[Node, Sizes]] = [(rows.matrix, rows.sizes)]
    while stack:
        view, sizes = stack.pop()
        yield view, sizes
        for user in view.users:
            if not isinstance(user.target, SparseReshape) or args_of(user)[0] is not view:
                continue
            new = user.meta["facts"][1].values
            if new is None or facts_of(args_of(user)[1]).values != sizes:
                continue
            if new == flat or (new[:2] == (count, width) and dims.prod(new[2:]) == 1):
                stack += [(item, new) for item in user.users if item_of(item) == (user, 0)]


def _is_spread(node: Node, sizes: Sizes) -> bool:
    """Whether a dense tensor has the places of its index matrix; what counts ids of a row is left to `one-hots`."""
    counted = len(sizes) == 2 and any(isinstance(user.target, OneHot) for user in node.users)
    return facts_of(args_of(node)[1]).values == sizes and not counted


def _length_behind(node: Node, views: dict[Node, Sizes], count: Dim) -> Node | None:
    """The `segment_max` whose numbers, zeros behind them, are a length for each row."""
    *parts, axis = args_of(node)
    if len(parts) != 2 or facts_of(axis).integer != 0 or facts_of(node).shape != (count,):
        return None
    zeros = splat(parts[1])
    if zeros is None or zeros != 0:
        return None
    base = parts[0]
    while not isinstance(base.target, SegmentMax):
        carried = _carried(base)
        if carried is None:
            return None
        base = carried
    ends, segments = args_of(base)
    rows = column_of(segments)
    if rows is None or rows[1] != 0 or rows[0] not in views or not isinstance(ends.target, Add):
        return None
    for places, one in (args_of(ends), args_of(ends)[::-1]):
        step = splat(one)
        if step is not None and step == 1 and column_of(places) == (rows[0], 1):
            return base
    return None


def _carried(node: Node) -> Node | None:
    """The only operand of an elementwise op that is not one constant, where it makes 0 of 0."""
    op = op_of(node)
    if not isinstance(op, Unary | Binary | Cast):
        return None
    given = {a: splat(a) for a in args_of(node)}
    moving = [a for a, value in given.items() if value is None]
    if len(moving) != 1 or facts_of(moving[0]).shape != facts_of(node).shape:
        return None
    zero = np.zeros((), facts_of(moving[0]).dtype)
    operands = [zero if (value := given[a]) is None else value for a in args_of(node)]
    made = op.reference(*(torch.from_numpy(np.array([value])) for value in operands))
    return moving[0] if float(made[0]) == 0 else None
