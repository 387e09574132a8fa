"""Which stored tensor a variable of the graph is restored from: read off the restore op, not guessed from names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import ImportFailure
from colonnade.frontends.tensorflow import wire
from colonnade.frontends.tensorflow.bundle import Bundle, Extent
from colonnade.frontends.tensorflow.functions import inline, node_of
from colonnade.frontends.tensorflow.lookup_tables import resource
from colonnade.frontends.tensorflow.protos import MetaGraph, Node
from colonnade.frontends.tensorflow.wire import BYTES

VARIABLES = ("VariableV2", "Variable", "VarHandleOp")
_ASSIGN = ("Assign", "AssignVariableOp")
_THROUGH = ("Identity", "Reshape", "EnsureShape")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a variable's value is: a key of the bundle, and the part of it where a variable is one of several."""

    key: str
    extents: tuple[Extent, ...] | None = None

    def read(self, bundle: Bundle) -> np.ndarray[Any, Any]:
        """The value: a view of the file wherever the tensor is stored in one piece."""
        return bundle.get(self.key) if self.extents is None else bundle.get_slice(self.key, self.extents)

    def described(self, bundle: Bundle) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Dtype and shape of the value, which is not read where it would have to be put together."""
        return bundle.described(self.key, self.extents)


def stored_variables(meta: MetaGraph, bundle: Bundle) -> Mapping[str, Stored]:
    """For every variable node of the main graph that has a stored value: where it is.

    Facts: the restore op decides; a variable that it does not assign is looked up by its name, its shared name, and the
    names in the object graph. Variables with neither (optimizer counters that were not saved) are left out.
    """
    restored = dict(_restored(meta))
    by_resource = {_identity(node): restored[node.name] for node in meta.nodes if node.name in restored}
    named: Mapping[str, str] | None = None
    out = {}
    for node in meta.nodes:
        if node.op not in VARIABLES:
            continue
        found = by_resource.get(_identity(node))
        if found is None:
            named = object_graph_keys(bundle) if named is None else named
            key = next((k for k in _guesses(node, named) if k in bundle), None)
            found = Stored(key) if key is not None else None
        if found is not None:
            out[node.name] = found
    return out


def _identity(node: Node) -> str:
    return f"{node.op} {resource(node)}"


def _guesses(node: Node, named: Mapping[str, str]) -> Iterator[str]:
    shared = node.attrs.get("shared_name") or b""
    for name in (node.name, shared.decode("utf-8", "replace") if isinstance(shared, bytes) else ""):
        if name:
            yield name
            yield named.get(name, "")


def _restored(meta: MetaGraph) -> Iterator[tuple[str, Stored]]:
    """Variable node and stored tensor of every assignment that the restore op makes."""
    if meta.saver is None or not meta.saver.restore:
        return
    flat = inline(meta, [f"^{node_of(meta.saver.restore)}"])
    nodes = {node.name: node for node in flat.nodes}
    reads: dict[str, list[Stored]] = {}
    for node in flat.nodes:
        if node.op == "RestoreV2":
            reads[node.name] = _restore_reads(node, nodes)
    for node in flat.nodes:
        if node.op not in _ASSIGN or len(node.inputs) < 2:
            continue
        target = nodes.get(node_of(_origin(nodes, node.inputs[0])))
        source, _, position = _origin(nodes, node.inputs[1]).partition(":")
        number = int(position or 0) if position.isdecimal() or not position else -1
        if target is not None and target.op in VARIABLES and 0 <= number < len(reads.get(source, ())):
            yield target.name, reads[source][number]


def _origin(nodes: Mapping[str, Node], ref: str) -> str:
    """The tensor that `ref` passes on."""
    for _ in range(len(nodes)):
        node = nodes.get(node_of(ref))
        if node is None or node.op not in _THROUGH or not node.inputs:
            return ref
        ref = node.inputs[0]
    return ref


def _restore_reads(node: Node, nodes: Mapping[str, Node]) -> list[Stored]:
    """What each output of a RestoreV2 node reads."""
    sides = []
    for ref in node.inputs[1:3]:
        const = nodes.get(node_of(_origin(nodes, ref)))
        value = const.attrs.get("value") if const is not None and const.op == "Const" else None
        if not isinstance(value, np.ndarray) or value.dtype != object:
            return []
        sides.append([item.decode("utf-8", "replace") for item in value.reshape(-1).tolist()])
    if len(sides) != 2 or len(sides[0]) != len(sides[1]):
        return []
    return [Stored(key, parse_slice(spec)) for key, spec in zip(*sides, strict=True)]


def parse_slice(spec: str) -> tuple[Extent, ...] | None:
    """A RestoreV2 slice, '10 4 0,5:-' (shape, then start,length a dimension): None where it is the whole tensor.

    Errors: ImportFailure where it does not parse.
    """
    if not spec:
        return None
    out: list[Extent] = []
    try:
        for part in spec.split(" ")[-1].split(":"):
            if part == "-":
                out.append((0, None))
            else:
                start, length = part.split(",")
                out.append((int(start), int(length)))
    except ValueError:
        want = "shape and slice, as in '10 4 0,5:-'"
        raise ImportFailure("a restored slice does not parse", got=repr(spec), want=want) from None
    return tuple(out)


def object_graph_keys(bundle: Bundle) -> Mapping[str, str]:
    """Variable name -> key, from the object graph that TensorFlow 2 stores beside the variables.

    Facts: a name that two objects carry with different keys is left out.
    """
    if _OBJECT_GRAPH not in bundle:
        return {}
    stored = bundle.get(_OBJECT_GRAPH)
    data = stored.reshape(-1)[0] if stored.dtype == object and stored.size == 1 else b""
    found: dict[str, set[str]] = {}
    for start, end in wire.spans(data, 0, len(data), 1):
        for a, b in wire.spans(data, start, end, 2):
            words = {n: wire.text(data, c, d) for n, k, c, d in wire.fields(data, a, b) if k == BYTES and n in (2, 3)}
            if words.get(2) and words.get(3):
                found.setdefault(words[2], set()).add(words[3])
    return {name: next(iter(keys)) for name, keys in found.items() if len(keys) == 1}
