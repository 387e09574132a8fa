"""What the ops of a graph that parse Examples become in a program: inputs, and how requests are decoded into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.examples import Feature
from colonnade.ir.column import Column, fields_read
from colonnade.ir.decoded import decoded_names
from colonnade.ir.graph import Graph, Node, args_of, facts_of, source_of
from colonnade.ir.program import Decode, Input
from colonnade.ops.graph.parse_example import ParseExample

LISTED = ("sparse", "ragged")


@dataclass(frozen=True)
class Decoded:
    """A feature that can be an input.

    values: its values in the graph, by the name that they have in a program.   width: the name of its most blocks.
    """

    parse: Node
    key: str
    feature: Feature
    name: str
    values: tuple[tuple[Node, str], ...]
    width: str = ""

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Of a dense input."""
        steps = (dims.symbol(self.width),) if self.feature.kind == "steps" else ()
        return (_rows(self), *steps, *self.feature.shape)

    @property
    def offsets(self) -> str | None:
        """The name of its offsets, where it is ragged."""
        return f"{self.name}.offsets" if self.feature.kind in LISTED else None


def decoded_inputs(graph: Graph) -> Iterator[Decoded]:
    """Every feature that is read of Examples which are an input of the graph."""
    keys = {node: key for key, node in graph.inputs.items()}
    for (parse, feature), name in decoded_names(graph).items():
        op = parse.target
        assert isinstance(op, ParseExample)
        key = keys.get(args_of(parse)[0])
        width = dict(op.widths).get(feature.key, "")
        if key is None or (feature.kind == "steps" and not width):
            continue
        values = []
        for user in [parse] if op.num_outputs == 1 else list(parse.users):
            found, what = op.place(0 if user is parse else int(str(user.args[1])))
            if found == feature and what in ("values", "splits"):
                values.append((user, name if what == "values" else f"{name}.offsets"))
        yield Decoded(parse, key, feature, name, tuple(values), width)


def inputs_of(found: list[Decoded], read: Set[str]) -> Iterator[Input]:
    """The inputs that columns, the dense rest or outputs read."""
    for k, item in enumerate(found):
        rows = _rows(item)
        if item.offsets is None and item.name in read:
            yield Input(item.name, item.feature.dtype, item.shape, tensor=source_of(item.parse))
        elif item.offsets is not None and read & {item.name, item.offsets}:
            count = dims.symbol(f"N{k}")
            yield Input(item.name, item.feature.dtype, (count,), tensor=source_of(item.parse), offsets=item.offsets)
            splits = item.feature.splits if item.feature.kind == "ragged" else "int64"
            yield Input(item.offsets, splits, (dims.add(rows, 1),))


def aligned(made: list[Input], columns: Sequence[Column], read: Set[str]) -> list[Input]:
    """The same inputs; ragged ones that a column reads together share the offsets of the first of them.

    Facts: requests in which their rows differ in length are refused where they are decoded.
    """
    offsets = {i.name: i.offsets for i in made if i.offsets is not None}
    leaders: dict[str, str] = {}

    def leader(name: str) -> str:
        while name in leaders:
            name = leaders[name]
        return name

    for column in columns:
        first, *others = [offsets[name] for name in fields_read(column) if name in offsets] or [""]
        for other in others:
            kept, dropped = leader(first), leader(other)
            if dropped in read:  # what something else reads stays
                kept, dropped = dropped, kept
            if kept != dropped and dropped not in read:
                leaders[dropped] = kept
    inputs = [i for i in made if i.name not in leaders]
    return [replace(i, offsets=leader(i.offsets)) if i.offsets is not None else i for i in inputs]


def decodes_of(found: list[Decoded], made: Set[str]) -> tuple[Decode, ...]:
    """How requests are decoded into these inputs; what no input is made of is checked, as the source does."""
    by_key: dict[str, list[Decoded]] = {}
    for item in found:
        by_key.setdefault(item.key, []).append(item)
    return tuple(
        Decode(key, _rows(items[0]), _features(items, made), source_of(args_of(items[0].parse)[0]))
        for key, items in by_key.items()
    )


def _features(items: list[Decoded], made: Set[str]) -> tuple[tuple[Feature, str | None], ...]:
    padded = {(item.parse, item.feature.key) for item in items if item.feature.kind == "padded"}
    features: dict[tuple[Feature, str | None], None] = {}
    for item in items:
        name = item.name if item.name in made else None
        if name is None and item.feature.kind == "sparse" and (item.parse, item.feature.key) in padded:
            continue  # the padded form checks all that the sparse one does
        kind = "ragged" if item.feature.kind in LISTED else item.feature.kind
        features[replace(item.feature, kind=kind, splits="int64"), name] = None
    return tuple(features)


def _rows(item: Decoded) -> Dim:
    shape = facts_of(args_of(item.parse)[0]).shape
    assert shape is not None
    return shape[0]
