"""Names for what an op that parses Examples decodes: the inputs of the program that is made of the graph."""

from __future__ import annotations

from colonnade.core.examples import Feature
from colonnade.ir.graph import Graph, Node
from colonnade.ops.graph.parse_example import ParseExample

Names = dict[tuple[Node, Feature], str]


def decoded_names(graph: Graph) -> Names:
    """The name of each feature of each op: its key, with a number behind it where that is taken; padded ones first.

    Facts: the same while inputs and ops that parse Examples stay.
    """
    taken = set(graph.inputs)
    found: Names = {}
    for node in graph.nodes():
        if not isinstance(node.target, ParseExample):
            continue
        for feature in sorted(node.target.features, key=lambda f: f.kind != "padded"):  # stable
            name, count = feature.key, 1
            while name in taken:
                count += 1
                name = f"{feature.key}_{count}"
            taken.add(name)
            found[node, feature] = name
    return found
