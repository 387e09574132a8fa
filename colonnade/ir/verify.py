"""The graph check that tests run after each pass."""

from __future__ import annotations

import operator

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import ColonnadeError, GraphError, listed
from colonnade.ir.graph import Graph, Node, op_of, source_of
from colonnade.ir.infer import Memo
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.variable import Variable


def verify(graph: Graph, memo: Memo | None = None) -> None:
    """Nodes in topological order, every target a graph op or an output of one, variables in the store, facts sound.

    Facts are sound where inferring again from the operands' facts gives the same dtype and rank, and bounds that
    overlap.
    Errors: GraphError that lists every failure.
    """
    memo = memo or Memo()
    seen: set[Node] = set()
    problems: list[str] = []
    for node in graph.nodes():
        problems += [f"{_name(node)} reads %{a}, which comes later" for a in node.all_input_nodes if a not in seen]
        problems += _target(graph, node)
        problems += _facts(node, memo)
        seen.add(node)
    for key, node in graph.outputs.items():
        if node not in seen:
            problems.append(f"output {key!r} is %{node}, which is not in the graph")
    for key, node in graph.inputs.items():
        op = node.target
        if node not in seen or not isinstance(op, Placeholder) or op.key != key:
            problems.append(f"input {key!r} is not its own placeholder")
    if problems:
        raise GraphError(f"the graph breaks {len(problems)} rule(s)", got=listed(problems))


def _name(node: Node) -> str:
    return f"%{node} ({source_of(node)})"


def _target(graph: Graph, node: Node) -> list[str]:
    if node.target is operator.getitem:
        base, index = node.args
        op = op_of(base)  # type: ignore[arg-type]
        if op is None or not 0 <= index < op.num_outputs:  # type: ignore[operator]
            return [f"{_name(node)} is output {index} of %{base}, which has none such"]
        return []
    op = op_of(node)
    if op is None:
        return [f"{_name(node)} has the target {node.target!r}, which is no graph op"]
    if isinstance(op, Variable) and op.key not in graph.store:
        return [f"{_name(node)}: variable {op.key!r} is not in the store"]
    return []


def _facts(node: Node, memo: Memo) -> list[str]:
    known = node.meta.get("facts")
    op = op_of(node)
    if known is None:
        return [f"{_name(node)} has no facts"]
    if op is None or op.num_outputs != 1 or not isinstance(known, Facts):
        return []
    try:
        again, fresh = memo.infer(op, tuple(a.meta["facts"] for a in node.args))  # type: ignore[union-attr]
    except ColonnadeError as error:
        return [f"{_name(node)}: {error.message}"]
    got = again.outputs[0]
    if got.dtype != known.dtype or got.rank != known.rank:
        return [f"{_name(node)} is {known.dtype} of rank {known.rank}, inferred {got.dtype} of rank {got.rank}"]
    if _apart(got, known) or (not fresh and _apart(known, got)):
        return [f"{_name(node)} has bounds {known.lo}..{known.hi}, inferred {got.lo}..{got.hi}"]
    return []


def _apart(a: Facts, b: Facts) -> bool:
    """Whether no value can satisfy both."""
    if a.dtype not in facts.INTEGER:
        return False
    return a.hi is not None and b.lo is not None and a.hi < b.lo
