"""Control flow whose predicate is known when the graph is imported, and what assertions say.

`functions.py` puts every branch of an `If` or `Case` into the flat graph, with a `BRANCH` node an output that reads the
predicate and each branch's value. Here a predicate of constants and sizes is folded and dead branches are left out. A
predicate that only the data decide is an error: both branches would run, and one may refuse what the other is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow.functions import BRANCH, EFFECTS, node_of
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.ir.graph import Graph, Node, facts_of, op_of
from colonnade.ir.infer import Memo, infer_nodes
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.logical_not import LogicalNot
from colonnade.ops.graph.logical_or import LogicalOr

CONTROL = ("Assert", "Case", "If", "Merge", "NoOp", "StatelessCase", "StatelessIf", "Switch")
UNDECIDED = "only the data decide which branch runs"
_OUTPUTS = 8  # of a node that may be dead: those of Switch, Merge and what stands between them


class Branches:
    """What is known of the branches of a graph that is being imported. operand: the node of a reference."""

    def __init__(self, graph: Graph, operand: Callable[[str], Node]) -> None:
        self._graph = graph
        self._operand = operand
        self._memo = Memo()
        self._inferred: set[Node] = set()
        self._dead: set[str] = set()
        self.gone: set[str] = set()
        """Nodes that never run."""
        self.taken: dict[str, int] = {}
        """BRANCH and EFFECTS nodes -> the branch that runs."""

    def decided(self, ref: str) -> int | None:
        """The value of a predicate that constants and sizes decide."""
        node = self._operand(ref)
        infer_nodes(self._graph, self._unknown(node), self._memo)
        known = facts_of(node)
        return known.lo if known.shape == () and known.lo == known.hi else None

    def _unknown(self, node: Node) -> Iterable[Node]:
        """The nodes that a value needs and that have no facts yet, operands first."""
        stack = [(node, False)]
        while stack:
            found, ready = stack.pop()
            if ready:
                yield found
            elif found not in self._inferred:
                self._inferred.add(found)
                stack.append((found, True))
                stack.extend((operand, False) for operand in found.all_input_nodes)

    def choose(self, source: Source) -> int | None:
        """Which branch of a BRANCH or EFFECTS node runs; None: only the data decide."""
        found = self.decided(source.inputs[0])
        if found is None:
            return None
        count = len(source.inputs) - 1
        # Case takes its last branch where the index lies outside.
        self.taken[source.name] = found if 0 <= found < count else count - 1
        return self.taken[source.name]

    def unless(self, condition: Node, within: Iterable[tuple[str, int]]) -> Node | None:
        """What holds wherever an assertion that stands in branches holds; None where it never runs.

        Errors: ImportFailure in a branch of an undecided `Case`.
        """
        for predicate, branch in within:
            found = self.decided(predicate)
            if found is not None and found != branch:
                return None
            if found is not None:
                continue
            test = self._operand(predicate)
            if facts_of(test).dtype != "bool":
                raise ImportFailure(UNDECIDED)
            other = self._graph.add(LogicalNot(), test) if branch else test
            condition = self._graph.add(LogicalOr(), other, condition)
        return condition

    # -- TensorFlow 1 ------------------------------------------------------------------------------------------------
    def dies(self, source: Source) -> bool:
        """Whether the node never runs: what it reads is dead."""
        data = [ref.removesuffix(":0") for ref in source.inputs if not ref.startswith("^")]
        controls = [ref[1:] for ref in source.inputs if ref.startswith("^")]
        dead = [ref in self._dead for ref in data]
        never = all(dead) and bool(dead) if source.op == "Merge" else any(dead)
        if never or not self.gone.isdisjoint(controls):
            self.gone.add(source.name)
            self._dead.update((source.name, *(f"{source.name}:{k}" for k in range(1, _OUTPUTS))))
        return source.name in self.gone

    def switch(self, source: Source) -> tuple[Node, Node]:
        """Switch: the value goes to output 1 where the predicate holds, else to output 0. Errors: ImportFailure."""
        data, predicate = source.inputs[:2]
        found = self.decided(predicate)
        if found is None:
            raise ImportFailure(UNDECIDED)
        self._dead.add(source.name if found else f"{source.name}:1")
        value = self._operand(data)
        return value, value

    def merge(self, source: Source) -> tuple[str, int]:
        """Merge: the only operand that is not dead, and its place. Errors: ImportFailure where there are several."""
        data = [ref.removesuffix(":0") for ref in source.inputs if not ref.startswith("^")]
        alive = [(ref, k) for k, ref in enumerate(data) if ref not in self._dead]
        if len(alive) != 1:
            raise ImportFailure(UNDECIDED)
        return alive[0]

    # -- what a node needs -------------------------------------------------------------------------------------------
    def reads(self, source: Source) -> Iterable[str]:
        """The nodes that a node needs: of branches the one that runs, of an assertion not what it prints."""
        if source.name in self.gone:
            return ()
        refs = source.inputs
        if source.op in (BRANCH, EFFECTS) and source.name in self.taken:
            refs = (refs[0], refs[1 + self.taken[source.name]])
        elif source.op == "Assert":
            refs = (refs[0], *(ref for ref in refs if ref.startswith("^")))
        return map(node_of, refs)


def said(source: Source, values: Mapping[str, object]) -> str:
    """What an assertion prints, as far as it is known: its name and its texts."""
    texts = []
    for ref in source.inputs[1:]:
        value = values.get(node_of(ref))
        op = op_of(value) if isinstance(value, Node) else None
        if isinstance(op, Constant) and op.value.array.dtype == object:
            texts += [bytes(t).decode("utf-8", "replace") for t in op.value.array.reshape(-1)]
    return f"{source.name}: {' '.join(texts)}"[:300]
