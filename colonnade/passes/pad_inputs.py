"""What padded rows of a graph become in a program: inputs that are made of ragged fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from colonnade.ir.decoded import decoded_names
from colonnade.ir.graph import Graph, Node, args_of, facts_of, source_of
from colonnade.ir.padded import PADDING, padded
from colonnade.ir.program import Input, Pad
from colonnade.ops.graph.row_ends import RowEnds
from colonnade.passes.decode_inputs import Decoded
from colonnade.passes.row_inputs import RowInput


@dataclass(frozen=True)
class PadInput:
    """A node that is an input of the program, and how that is made."""

    node: Node
    pad: Pad


def pad_inputs(
    graph: Graph, rows: Sequence[RowInput], decoded: Sequence[Decoded], take: Callable[[str], str]
) -> Iterator[PadInput]:
    """Every node that pads the rows of inputs.   take: an unused name like the one that is wanted."""
    names = decoded_names(graph)
    said = {found.node: found.keys for found in rows}
    listed = {(found.parse, found.name): found.offsets for found in decoded}
    places: dict[Node, str] = {}
    for node in graph.nodes():
        if not isinstance(node.target, PADDING):
            continue
        found = padded(node, names)
        sizes = facts_of(args_of(node)[1]).values
        if found is None or sizes is None or len(sizes) != 2:
            continue
        keys = said.get(found.base)
        offsets = keys.offsets if keys is not None else listed.get((found.base, found.of))
        if offsets is None or take(found.name) != found.name:
            continue
        place = None
        if keys is not None and keys.by == "indices":
            place = places[found.base] = places.get(found.base) or take(f"{found.of}.places")
        of = found.of if found.what == "values" else None
        cut = None if isinstance(node.target, RowEnds) else node.target.width
        width = sizes[1] if cut is None else cut
        yield PadInput(node, Pad(found.name, found.what, sizes[0], width, offsets, place, of, found.fill))


def input_of(made: PadInput) -> Input:
    """The input that it is."""
    return Input(made.pad.name, facts_of(made.node).dtype, made.pad.shape, tensor=source_of(made.node))


def placed(said: RowInput, pads: Sequence[PadInput]) -> RowInput:
    """The keys that say rows, with an input of places where padded rows read it."""
    found = next((p.pad.places for p in pads if p.pad.offsets == said.keys.offsets and p.pad.places), None)
    return replace(said, keys=replace(said.keys, places=found))
