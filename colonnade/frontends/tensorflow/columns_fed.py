"""Where a node stands, in the terms of the model's owner: the inputs it reads, the lookups that it feeds.

Facts: by the graph alone, since a model that cannot be imported has no columns yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from colonnade.frontends.tensorflow.checkpoint import VARIABLES
from colonnade.frontends.tensorflow.functions import node_of
from colonnade.frontends.tensorflow.protos import Node

LOOKUPS = ("Gather", "GatherV2", "ResourceGather")
_THROUGH = ("Identity", "ReadVariableOp")


def table_of(nodes: Mapping[str, Node], ref: str) -> str:
    """The variable behind the operand of a lookup; empty where it is something else."""
    node = nodes.get(node_of(ref))
    while node is not None and node.op in _THROUGH and node.inputs:
        node = nodes.get(node_of(node.inputs[0]))
    return node.name if node is not None and node.op in VARIABLES else ""


class ColumnsFed:
    """What nodes read and feed.   keys: the signature's name of each input's node."""

    def __init__(self, nodes: Mapping[str, Node], keys: Mapping[str, str]) -> None:
        self._nodes, self._keys = nodes, keys
        self._readers: dict[str, list[Node]] = {}
        for node in nodes.values():
            for ref in _operands(node):
                self._readers.setdefault(ref, []).append(node)

    def of(self, name: str) -> str:
        """Such as `columns of age, city in table emb/weights`; of what feeds no lookup, `reads age, city`."""
        behind = _reached([name], lambda n: _operands(self._nodes[n]) if n in self._nodes else ())
        reads = ", ".join(sorted(self._keys[n] for n in behind & self._keys.keys())) or "no input"
        tables: set[str] = set()

        def onwards(reached: str) -> Iterable[str]:
            for node in self._readers.get(reached, ()):
                table = table_of(self._nodes, node.inputs[0]) if node.op in LOOKUPS else ""
                if table:
                    tables.add(table)
                else:
                    yield node.name

        _reached([name], onwards)
        return f"columns of {reads} in table {', '.join(sorted(tables))}" if tables else f"reads {reads}"


def _operands(node: Node) -> Iterable[str]:
    return (node_of(ref) for ref in node.inputs if not ref.startswith("^"))


def _reached(roots: Iterable[str], neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    found: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(neighbours(name))
    return found
