"""Inference: facts for every node, and which dim symbols are one.

The whole graph is analysed with `GraphOp.infer` memoised on (op, facts of the operands): columns of one structure cost
one inference. Dims that an op requires to be equal are unified when both are bare symbols of inputs, whose equality
every request is held against; then the graph is analysed again, until nothing new is found. A size that only the data
decide is never taken to be another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sympy

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import ColonnadeError, GraphError
from colonnade.ir.graph import Graph, Node, op_of, source_of
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.row_splits import RowSplits
from colonnade.ops.op import GraphOp, Inferred

ROUNDS = 8


class Memo:
    """`infer` results by (op, facts), and the fresh symbols that each result holds."""

    def __init__(self) -> None:
        self._known: dict[tuple[GraphOp, tuple[Facts, ...]], tuple[Inferred, tuple[sympy.Symbol, ...]]] = {}
        self.misses = 0

    def infer(self, op: GraphOp, args: tuple[Facts, ...]) -> tuple[Inferred, tuple[sympy.Symbol, ...]]:
        """The op's inference and its fresh symbols."""
        key = (op, args)
        found = self._known.get(key)
        if found is None:
            self.misses += 1
            result = op.infer(*args)
            fresh = {s for f in result.outputs for s in facts.symbols_of(f)}
            found = result, tuple(sorted((s for s in fresh if s.name.startswith("fresh_")), key=str))
            self._known[key] = found
        return found


def infer(graph: Graph, memo: Memo | None = None) -> Memo:
    """Write `facts` on every node and unify dims.

    Errors: GraphError naming the node where an op cannot take its operands.
    """
    memo = memo or Memo()
    for _ in range(ROUNDS):
        equal = _analyse(graph, graph.nodes(), memo)
        mapping = _unify(equal)
        graph.checks = _checks((*graph.checks, *equal), mapping)
        if not mapping:
            return memo
        rename(graph, mapping)
    raise GraphError(f"dims were still being unified after {ROUNDS} rounds")


def infer_nodes(graph: Graph, nodes: Iterable[Node], memo: Memo) -> None:
    """Facts for new nodes, in topological order, without unifying."""
    _analyse(graph, nodes, memo)


Equal = list[tuple[Dim, Dim, str]]


def _analyse(graph: Graph, nodes: Iterable[Node], memo: Memo) -> Equal:
    equal: Equal = []
    for node in nodes:
        op = op_of(node)
        if op is None:
            base, index = node.args
            node.meta["facts"] = base.meta["facts"][index]  # type: ignore[union-attr]
            continue
        args = tuple(a.meta["facts"] for a in node.args)  # type: ignore[union-attr]
        try:
            result, fresh = memo.infer(op, args)
        except ColonnadeError as error:
            raise type(error)(
                error.message,
                where=f"{op.name} <- node {source_of(node)!r}" + (f"; {error.where}" if error.where else ""),
                got=error.got,
                want=error.want,
                help=error.help,
            ) from error
        outputs = result.outputs
        if fresh:
            own = {s: _own_symbol(node, s) for s in fresh}
            outputs = tuple(facts.substitute(f, own) for f in outputs)
            equal.extend((dims.substitute(a, own), dims.substitute(b, own), source_of(node)) for a, b in result.equal)
        elif result.equal:
            equal.extend((a, b, source_of(node)) for a, b in result.equal)
        node.meta["facts"] = outputs[0] if op.num_outputs == 1 else outputs
    return equal


def _own_symbol(node: Node, fresh: sympy.Symbol) -> Dim:
    """The node's own name for a fresh size."""
    return dims.data_symbol(node.name, int(fresh.name.removeprefix("fresh_")))


def _unify(equal: Equal) -> dict[sympy.Symbol, Dim]:
    """symbol -> the symbol that stands for its class; only symbols that change."""
    parent: dict[sympy.Symbol, sympy.Symbol] = {}

    def root(s: sympy.Symbol) -> sympy.Symbol:
        while s in parent:
            s = parent[s]
        return s

    for a, b, _ in equal:
        if isinstance(a, sympy.Symbol) and isinstance(b, sympy.Symbol) and not (dims.from_data(a) or dims.from_data(b)):
            ra, rb = root(a), root(b)
            if ra != rb:
                keep, drop = sorted((ra, rb), key=_seniority)
                parent[drop] = keep
    return {s: root(s) for s in parent}


def _seniority(s: sympy.Symbol) -> tuple[int, str]:
    return len(s.name), s.name


def rename(graph: Graph, mapping: Mapping[sympy.Symbol, Dim]) -> None:
    """Give dims of inputs other names; facts are those of the old ones until the graph is inferred again."""
    names = {s.name: str(to) for s, to in mapping.items()}
    for node in graph.nodes():
        if isinstance(node.target, ParseExample | Placeholder | RaggedInput | RowSplits):
            node.target = node.target.renamed(names)


def _checks(
    equal: Iterable[tuple[Dim, Dim, str]], mapping: Mapping[sympy.Symbol, Dim]
) -> tuple[tuple[Dim, Dim, str], ...]:
    """Equalities that are not proven, each once; those of nodes that are no longer there are kept.

    Facts: sizes that only the data decide are left out. No request tells them and the dense rest holds none; what is
    made of them is only rewritten where a pass proves the equality by structure.
    """
    found: dict[tuple[Dim, Dim], str] = {}
    for one, other, where in equal:
        if dims.from_data(one) or dims.from_data(other):
            continue
        a, b = dims.substitute(one, mapping), dims.substitute(other, mapping)
        if a != b and dims.sub(a, b) != 0:
            found.setdefault((a, b), where)
    return tuple((a, b, where) for (a, b), where in found.items())
