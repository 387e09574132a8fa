"""Run any graph, at any stage, by the ops' `reference`: slow, and right by inspection."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from colonnade.errors import FeedError, GraphError, listed
from colonnade.ir.graph import Graph, Node, op_of, source_of
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.variable import Variable
from colonnade.ops.op import Value


def interpret(graph: Graph, feed: Mapping[str, Value], fetch: Iterable[Node] | None = None) -> dict[str, Value]:
    """The graph's outputs (or the values of the nodes in `fetch`, by fx name) for a feed.

    Errors: FeedError naming the keys that are missing; whatever an op raises.
    """
    targets = graph.outputs if fetch is None else {n.name: n for n in fetch}
    needed = needed_by(targets.values())
    missing = [key for key, node in graph.inputs.items() if node in needed and key not in feed]
    if missing:
        raise FeedError("inputs are missing", got=listed(sorted(feed)), want=listed(missing))
    fed = {node: feed[key] for key, node in graph.inputs.items() if key in feed}
    values: dict[Node, Any] = {}
    kept = set(targets.values())
    for node in graph.nodes():
        if node not in needed:
            continue
        values[node] = fed[node] if node in fed else _run(graph, node, values)
        for arg in node.all_input_nodes:
            if needed[arg] is node and arg not in kept:
                del values[arg]
    return {key: values[node] for key, node in targets.items()}


def _run(graph: Graph, node: Node, values: Mapping[Node, Any]) -> Any:
    if node.target is operator.getitem:
        base, index = node.args
        return values[base][index]  # type: ignore[index]
    op = op_of(node)
    if isinstance(op, Variable):
        return torch.from_numpy(graph.store[op.key])
    if op is None or isinstance(op, Placeholder):
        raise GraphError("a node cannot be interpreted", where=source_of(node), got=str(node.target))
    return op.reference(*(values[a] for a in node.args))  # type: ignore[index]


def needed_by(targets: Iterable[Node]) -> dict[Node, Node | None]:
    """Every node that the targets need, with its last user in topological order (None: no user)."""
    found: set[Node] = set()
    stack = list(targets)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes)
    last: dict[Node, Node | None] = dict.fromkeys(found)
    if found:
        graph = next(iter(found)).graph
        for node in graph.nodes:
            if node in found:
                for arg in node.all_input_nodes:
                    last[arg] = node
    return last
