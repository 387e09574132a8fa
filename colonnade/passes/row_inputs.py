"""What ragged inputs of a graph become in a program: fields with offsets, and the keys that say them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.ir.graph import Graph, Node, args_of, facts_of, source_of
from colonnade.ir.program import Input, RowKeys
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.row_splits import RowSplits


@dataclass(frozen=True)
class RowInput:
    """values: the keys of its fields.   aliases: outputs that are inputs themselves, each with the input's key."""

    keys: RowKeys
    values: tuple[str, ...]
    aliases: tuple[tuple[Node, str], ...]
    node: Node


def row_inputs(graph: Graph, take: Callable[[str], str]) -> Iterator[RowInput]:
    """Every ragged input that is made of inputs of the graph.   take: an unused name like the one that is wanted."""
    for number, node in enumerate(list(graph.nodes())):
        op = node.target
        if isinstance(op, RowSplits) and isinstance(args_of(node)[0].target, Placeholder):
            yield _splits(node, op, dims.symbol(f"u{number}"), take)
        if isinstance(op, RaggedInput) and all(isinstance(x.target, Placeholder) for x in args_of(node)):
            yield _row_input(graph, node, op, take)


def _splits(node: Node, op: RowSplits, width: Dim, take: Callable[[str], str]) -> RowInput:
    """Splits of what is no field; nothing reads the width, a symbol of their own."""
    (given,) = args_of(node)
    assert isinstance(given.target, Placeholder)
    known, key = facts_of(given), given.target.key
    assert known.shape is not None
    offsets = take(f"{key}.offsets")
    rows, elements = dims.symbol(op.rows), dims.symbol(op.elements)
    made = RowKeys(key, "splits", offsets, known.shape[0], rows, width, dtype=known.dtype, elements=elements)
    return RowInput(replace(made, tensor=source_of(given)), (), ((node, offsets),), node)


def _row_input(graph: Graph, node: Node, op: RaggedInput, take: Callable[[str], str]) -> RowInput:
    args = args_of(node)
    keys = [x.target.key for x in args if isinstance(x.target, Placeholder)]
    values = tuple(keys[op.first_value :])
    rows, width = node.meta["facts"][-1].values
    first = 1 if op.by == "nested" else 0
    known, outer = facts_of(args[first]), (keys[0], _count(args[0])) if op.by == "nested" else None
    made = RowKeys(
        keys[first],
        op.by,
        take(f"{values[0]}.offsets"),
        _count(args[first]),
        rows,
        width,
        keys[1] if op.by == "indices" and op.first_value == 2 else None,
        known.dtype,
        op.trimmed,
        op.strict,
        outer=outer,
        tensor=source_of(args[first]),
    )
    outputs = {k + 1: key for k, key in enumerate(values)}
    if op.by == "indices":
        outputs[0] = keys[0]
    if op.by == "indices" and op.first_value == 2:
        outputs[op.num_outputs - 1] = keys[1]
    items = [(user, outputs[int(str(user.args[1]))]) for user in node.users if user.args[1] in outputs]
    return RowInput(made, values, tuple(items), node)


def _count(splits: Node) -> Dim:
    shape = facts_of(splits).shape
    assert shape is not None
    return shape[0]


def inputs_said(found: RowInput) -> Iterator[Input]:
    """The inputs of offsets, and of places where something reads them."""
    rows: Dim = found.keys.rows
    yield Input(found.keys.offsets, "int64", (dims.add(rows, 1),))
    if found.keys.places is not None:
        yield Input(found.keys.places, "int64", (found.keys.count,))
