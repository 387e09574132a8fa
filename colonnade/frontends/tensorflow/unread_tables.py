"""`unread-tables`: a variable that the graph looks up, in no part that a signature needs."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.errors import listed
from colonnade.frontends.tensorflow.columns_fed import LOOKUPS, table_of
from colonnade.frontends.tensorflow.functions import node_of, reachable
from colonnade.frontends.tensorflow.protos import MetaGraph
from colonnade.ir.explanation import Notice

KIND = "unread-tables"


def look(meta: MetaGraph) -> Iterator[Notice]:
    """One notice for all tables. Facts: nothing is said of a model with outputs that are more than one tensor."""
    results = [info.name for signature in meta.signatures.values() for info in signature.outputs.values()]
    if not results or not all(results):
        return
    nodes = {node.name: node for node in meta.nodes}
    needed = {node.name for node in reachable(nodes, [node_of(name) for name in results])}
    lookups = [node for node in meta.nodes if node.op in LOOKUPS and node.name not in needed and node.inputs]
    tables = {table: node.name for node in lookups if (table := table_of(nodes, node.inputs[0])) not in needed}
    unread = [f"variable {table!r}, looked up by {lookup!r}" for table, lookup in tables.items() if table]
    if unread:
        yield Notice(
            KIND,
            f"{len(unread)} table(s) are looked up in the graph, and no output of any signature needs that",
            where=listed(unread),
            help="they take room in the checkpoint; was their column left out of the network?",
        )
