"""What a pass is, and how passes are run: each proves its condition, says why it rejected, and leaves facts behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from colonnade.core import consts
from colonnade.errors import OptionError
from colonnade.ir.graph import Graph, Node, op_of, source_of
from colonnade.ir.infer import Memo, infer, infer_nodes
from colonnade.ops.graph.constant import Constant
from colonnade.ops.op import GraphOp, snake


@dataclass(frozen=True)
class Reject:
    """Why a match is not rewritten, in the user's terms."""

    reason: str


@dataclass(frozen=True)
class Event:
    """One decision of a pass: what it did or declined at a node, and the proof or the reason."""

    pass_name: str
    source: str
    op: str
    applied: bool
    reason: str


@dataclass
class Log:
    """Every decision of a run; (pass, nodes before, nodes after, seconds) for each pass."""

    events: list[Event] = field(default_factory=list)
    counts: list[tuple[str, int, int, float]] = field(default_factory=list)

    def applied(self) -> Iterable[Event]:
        """The rewrites that were made."""
        return (e for e in self.events if e.applied)

    def rejected(self) -> Iterable[Event]:
        """The matches that were declined. Facts: a node that a later pass rewrote after all is still listed."""
        return (e for e in self.events if not e.applied)


class Editor:
    """The graph while a pass changes it: new nodes get facts at once."""

    def __init__(self, graph: Graph, memo: Memo, log: Log, pass_name: str) -> None:
        self.graph = graph
        self.memo = memo
        self.log = log
        self.pass_name = pass_name
        self._anchor: Node | None = None

    def at(self, anchor: Node) -> Editor:
        """The same editor, inserting in front of `anchor`."""
        self._anchor = anchor
        return self

    def add(self, op: GraphOp, *args: Node) -> Node:
        """A new node in front of the anchor, with facts, carrying the anchor's source."""
        anchor = self._anchor
        assert anchor is not None
        with self.graph.before(anchor):
            node = self.graph.add(op, *args, source=source_of(anchor))
        infer_nodes(self.graph, [node], self.memo)
        return node

    def item(self, node: Node, index: int) -> Node:
        """Output `index` of a node, with facts."""
        item = self.graph.item(node, index)
        if "facts" not in item.meta:
            infer_nodes(self.graph, [item], self.memo)
        return item

    def constant(self, value: Any) -> Node:
        """A constant node."""
        return self.add(Constant(consts.Const(value)))

    def record(self, node: Node, applied: bool, reason: str) -> None:
        """Log one decision; what a pass that runs again declines for the same reason, once."""
        if not applied:
            declined: set[tuple[str, str]] = node.meta.setdefault("declined", set())
            if (self.pass_name, reason) in declined:
                return
            declined.add((self.pass_name, reason))
        op = op_of(node)
        self.log.events.append(Event(self.pass_name, source_of(node), op.name if op else "item", applied, reason))


class Pass:
    """Graph to graph. `run` gives the number of changes."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = snake(cls.__name__).replace("_", "-")
        if not cls.__doc__:
            raise TypeError(f"pass {cls.name!r} has no docstring: its first line is what `passes` shows")
        cls.summary = cls.__doc__.strip().splitlines()[0]

    def run(self, editor: Editor) -> int:
        """Change the graph."""
        raise TypeError(f"{type(self).__name__} defines no run")


@dataclass(frozen=True)
class Rewritten:
    """What replaces the matched node, and the proof that it may. Several: outputs of a multi-output op, in order."""

    value: Node | tuple[Node, ...]
    proof: str


class Rewrite(Pass):
    """A pass of one local rewrite: `rewrite` is tried once on every node whose op is one of `roots`."""

    roots: ClassVar[tuple[type[GraphOp], ...]] = ()

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """The replacement; a Reject with the reason; None where the node is not of the pattern at all."""
        raise TypeError(f"{type(self).__name__} defines no rewrite")

    def run(self, editor: Editor) -> int:
        """Visit every root in topological order."""
        changed = 0
        for node in list(editor.graph.nodes()):
            if not isinstance(node.target, self.roots):
                continue
            result = self.rewrite(node, editor.at(node))
            if result is None:
                continue
            if isinstance(result, Reject):
                editor.record(node, False, result.reason)
                continue
            editor.record(node, True, result.proof)
            self._replace(editor.graph, node, result.value)
            changed += 1
        editor.graph.flush()
        return changed

    def _replace(self, graph: Graph, node: Node, value: Node | tuple[Node, ...]) -> None:
        if isinstance(value, Node):
            graph.replace(node, value)
            return
        for user in list(node.users):
            graph.replace(user, value[user.args[1]])  # type: ignore[index]


Observer = Callable[[str, Graph], None]


def run(
    passes: Sequence[Pass],
    graph: Graph,
    *,
    observe: Observer | None = None,
    stop_after: int | None = None,
    memo: Memo | None = None,
) -> Log:
    """Run passes in order; after each, prune, infer again, and let `observe(name, graph)` look (print, verify).

    stop_after: run only the first so many passes (bisecting a wrong answer).
    """
    log = Log()
    memo = memo or Memo()
    infer(graph, memo)
    for item in passes[:stop_after]:
        before, began = len(graph), time.perf_counter()
        if item.run(Editor(graph, memo, log, item.name)):
            graph.prune()
            infer(graph, memo)
        log.counts.append((item.name, before, len(graph), time.perf_counter() - began))
        if observe is not None:
            observe(item.name, graph)
    return log


def bisect(length: int, good: Callable[[int], bool]) -> int | None:
    """The first number of passes after which the answer is wrong; None where it never is.

    good(k): whether the answer is right after the first k passes. Errors: OptionError where it is wrong before any
    pass.
    """
    if not good(0):
        raise OptionError("the answer is wrong before the first pass: the import itself is to blame")
    if good(length):
        return None
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return high
