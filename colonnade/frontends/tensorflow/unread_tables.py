"""`unread-tables`: a variable that the graph looks up, in no part that a signature needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from colonnade.errors import listed
from colonnade.frontends.tensorflow.functions import node_of, reachable
from colonnade.frontends.tensorflow.protos import MetaGraph, Node
from colonnade.ir.explanation import Notice

KIND = "unread-tables"
LOOKUPS = ("Gather", "GatherV2", "ResourceGather")
VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_THROUGH = ("Identity", "ReadVariableOp")


def look(meta: MetaGraph) -> Iterator[Notice]:
    """One notice for all tables. Facts: nothing is said of a model with outputs that are more than one tensor."""
    results = [info.name for signature in meta.signatures.values() for info in signature.outputs.values()]
    if not results or not all(results):
        return
    nodes = {node.name: node for node in meta.nodes}
    needed = {node.name for node in reachable(nodes, [node_of(name) for name in results])}
    lookups = [node for node in meta.nodes if node.op in LOOKUPS and node.name not in needed and node.inputs]
    tables = {table: node.name for node in lookups if (table := _table(nodes, node.inputs[0])) not in needed}
    unread = [f"variable {table!r}, looked up by {lookup!r}" for table, lookup in tables.items() if table]
    if unread:
        yield Notice(
            KIND,
            f"{len(unread)} table(s) are looked up in the graph, and no output of any signature needs that",
            where=listed(unread),
            help="they take room in the checkpoint; was their column left out of the network?",
        )


def _table(nodes: Mapping[str, Node], ref: str) -> str:
    """The variable behind the operand of a lookup; empty where it is something else."""
    node = nodes.get(node_of(ref))
    while node is not None and node.op in _THROUGH and node.inputs:
        node = nodes.get(node_of(node.inputs[0]))
    return node.name if node is not None and node.op in VARIABLES else ""
