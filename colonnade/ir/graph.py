"""A graph of graph ops: a thin layer over `torch.fx.Graph`. Every fx internal that Colonnade relies on is in this file.

A node is an fx `call_function` node whose target is a `GraphOp`; an output of a multi-output op is `operator.getitem`
of it. `node.meta` holds `source` (the name in the source framework) and, after inference, `facts`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy.typing as npt
import torch.fx as fx

from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph.constant import Constant
from colonnade.ops.op import GraphOp

Node = fx.Node
WIDE = 64  # operands
Array = npt.NDArray[Any]


class Graph:
    """Nodes in topological order, named inputs and outputs, and the store of variables beside them.

    checks: pairs of dims that an op requires to be equal and that inference did not prove so, with the node's source;
    those of nodes that passes removed stay, those of sizes that the data decide are left out. A program checks them at
    run time.
    agreements: keys of inputs that lack values in the same places, with the value that stands for none in each. A
    program checks that in every request.
    """

    def __init__(self, store: Mapping[str, Array] | None = None) -> None:
        self.fx = fx.Graph()
        self.store: Mapping[str, Array] = store if store is not None else {}
        self.inputs: dict[str, Node] = {}
        self.outputs: dict[str, Node] = {}
        self.checks: tuple[tuple[Dim, Dim, str], ...] = ()
        self.agreements: dict[tuple[str, str], tuple[int | bytes, float]] = {}
        self._constants: dict[Const, Node] = {}
        self._pending: dict[Node, Node] = {}
        self._made = 0
        self._end: Node | None = None

    # -- building ----------------------------------------------------------------------------------------------------
    def add(self, op: GraphOp, *args: Node, source: str = "") -> Node:
        """Append the op applied to nodes."""
        return self._create(op, args, source)

    def constant(self, value: Const, source: str = "") -> Node:
        """The node of a constant; equal constants are one node."""
        node = self._constants.get(value)
        if node is None:
            node = self._constants[value] = self._create(Constant(value), (), source)
        return node

    def input(self, key: str, op: GraphOp, source: str = "") -> Node:
        """Append a placeholder that the caller feeds under `key`."""
        node = self._create(op, (), source)
        self.inputs[key] = node
        return node

    def item(self, node: Node, index: int) -> Node:
        """Output `index` of a multi-output op (or of a single-output op, index 0: the node itself)."""
        op = op_of(node)
        if op is None or op.num_outputs == 1:  # no op: it is an output already
            if index != 0:
                raise GraphError(f"a value has one output, not {index + 1}", where=source_of(node))
            return node
        for user in node.users:
            if user.target is operator.getitem and user.args[1] == index:
                return user
        with self.fx.inserting_after(node):
            return self._create(operator.getitem, (node, index), source_of(node), f"{node.name}_{index}")

    def before(self, anchor: Node) -> Any:
        """Context in which `add` inserts in front of `anchor`."""
        return self.fx.inserting_before(anchor)

    def inputs_first(self) -> None:
        """Move the inputs in front of all other nodes; they read none."""
        for node in reversed(self.inputs.values()):
            first = next(iter(self.fx.nodes))
            if first is not node:
                first.prepend(node)

    def set_outputs(self, outputs: Mapping[str, Node]) -> None:
        """Declare the named results."""
        if self._end is not None:
            self.fx.erase_node(self._end)
        self.outputs = dict(outputs)
        self._end = self.fx.output(dict(outputs))

    def _create(self, target: Callable[..., Any], args: tuple[Any, ...], source: str, name: str | None = None) -> Node:
        if name is None:
            name = f"v{self._made}"
            self._made += 1
        node = self.fx.create_node("call_function", target, args, {}, name=name)
        node.meta["source"] = source
        return node

    # -- reading -----------------------------------------------------------------------------------------------------
    def nodes(self) -> Iterator[Node]:
        """Every node but the output, in topological order."""
        return (n for n in self.fx.nodes if n.op == "call_function")

    def __len__(self) -> int:
        return sum(1 for _ in self.nodes())

    # -- rewriting ---------------------------------------------------------------------------------------------------
    def replace(self, old: Node, new: Node, but: Node | None = None) -> None:
        """Let every user of `old`, and every output, read `new` instead.

        but: a user that stays as it is.

        Facts: users of very many operands (a concat of a thousand columns) are changed by `flush`, all operands at
        once:
        fx walks every operand for each change. Until then they read the old value, which is equal.
        """
        wide = [user for user in old.users if len(user.args) > WIDE and user is not but]
        if wide:
            self._pending[old] = new
        old.replace_all_uses_with(new, delete_user_cb=lambda user: len(user.args) <= WIDE and user is not but)
        for key, node in self.outputs.items():
            if node is old:
                self.outputs[key] = new

    def flush(self) -> None:
        """Make the changes that `replace` put off."""
        pending, self._pending = self._pending, {}
        for user in {user for old in pending for user in old.users}:
            user.args = tuple(_last(arg, pending) for arg in user.args)

    def prune(self) -> int:
        """Erase nodes that nothing reads; inputs stay. Gives the number erased."""
        self.flush()
        kept = set(self.inputs.values())
        erased = 0
        for node in reversed(list(self.nodes())):
            if not node.users and node not in kept:
                self.fx.erase_node(node)
                erased += 1
                if isinstance(node.target, Constant):
                    self._constants.pop(node.target.value, None)
        return erased

    def histogram(self) -> dict[str, int]:
        """Number of nodes by op, outputs of multi-output ops not counted."""
        counts: dict[str, int] = {}
        for node in self.nodes():
            op = op_of(node)
            if op is not None:
                counts[op.name] = counts.get(op.name, 0) + 1
        return dict(sorted(counts.items()))


def _last(arg: Any, pending: Mapping[Node, Node]) -> Any:
    while arg in pending:
        arg = pending[arg]
    return arg


def op_of(node: Node) -> GraphOp | None:
    """The node's graph op; None for an output of a multi-output op."""
    target = node.target
    return target if isinstance(target, GraphOp) else None


def args_of(node: Node) -> tuple[Node, ...]:
    """The node's operands."""
    return node.args  # type: ignore[return-value]


def item_of(node: Node) -> tuple[Node, int]:
    """The op node and the output index that a value stands for."""
    if node.target is operator.getitem:
        base, index = node.args
        return base, index  # type: ignore[return-value]
    return node, 0


def source_of(node: Node) -> str:
    """The node's name in the source framework."""
    return node.meta.get("source", "") or node.name


def facts_of(node: Node) -> Facts:
    """What inference proved of a value."""
    found = node.meta.get("facts")
    if not isinstance(found, Facts):
        raise GraphError("a value has no facts: inference has not run", where=source_of(node))
    return found
