"""The contents of initialised lookup tables, from constants and vocabulary files that the init op reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import ImportFailure, listed
from colonnade.frontends.tensorflow.functions import canonical, inline, node_of
from colonnade.frontends.tensorflow.protos import NUMPY, MetaGraph, Node

HANDLES = ("HashTableV2", "HashTable", "MutableHashTableV2", "MutableHashTable", "AnonymousHashTable")
_FROM_VALUES = ("InitializeTableV2", "InitializeTable", "LookupTableImportV2", "LookupTableImport")
_FROM_FILE = ("InitializeTableFromTextFileV2", "InitializeTableFromTextFile")
_THROUGH = ("Identity", "PlaceholderWithDefault", "EnsureShape")
_WHOLE_LINE, _LINE_NUMBER = -2, -1
_FLOATS = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class LookupTable:
    """A table as two arrays of one length; `source` says where they came from.

    Facts: strings are object arrays of bytes; keys are distinct.
    """

    keys: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    key_dtype: str
    value_dtype: str
    source: str


@dataclass(frozen=True, slots=True)
class LookupTables:
    """Every table of a model by the flat name of its handle node; `unknown` says why a table has no contents.

    Facts: `resources` are the same tables by what their handles refer to (see `resource`).
    """

    tables: Mapping[str, LookupTable]
    unknown: Mapping[str, str]
    resources: Mapping[str, LookupTable]

    def of(self, nodes: Mapping[str, Node], ref: str) -> LookupTable | None:
        """The table behind a table operand of a flat graph, None where its contents are not known."""
        handle = handle_of(nodes, ref)
        return self.resources.get(resource(handle)) if handle is not None else None


def read_lookup_tables(meta: MetaGraph, path: Path) -> LookupTables:
    """The tables that the init op of `meta` fills; `path` is the model's directory, for its assets.

    Facts: handles with one shared name are one table. A table filled from anything but constants and files is unknown.
    Errors: ImportFailure for a vocabulary file that is missing, too short, or does not parse.
    """
    if not meta.init_op:
        return LookupTables({}, {}, {})
    flat = inline(meta, [f"^{meta.init_op}"])
    nodes = {node.name: node for node in flat.nodes}
    reader = _Tables(nodes, meta.assets, Path(path))
    found: dict[str, LookupTable] = {}
    unknown: dict[str, str] = {}
    for node in flat.nodes:
        if node.op not in _FROM_VALUES + _FROM_FILE:
            continue
        handle = reader.source(node.inputs[0]) if node.inputs else None
        if handle is None or handle.op not in HANDLES:
            continue
        try:
            table = reader.contents(node, handle)
            if not _same(found.setdefault(resource(handle), table), table):
                unknown[handle.name] = "it is initialised twice, with other contents"
        except _Unknown as reason:
            unknown[handle.name] = str(reason)
    for name in unknown:
        found.pop(resource(nodes[name]), None)
    handles = [*meta.nodes, *flat.nodes]
    tables = {node.name: found[resource(node)] for node in handles if node.op in HANDLES and resource(node) in found}
    return LookupTables(tables, unknown, found)


def _same(left: LookupTable, right: LookupTable) -> bool:
    return np.array_equal(left.keys, right.keys) and np.array_equal(left.values, right.values)


def resource(handle: Node) -> str:
    """What a handle node refers to: its container and shared name, or itself where it shares nothing."""
    shared = _text(handle.attrs.get("shared_name"))
    if shared:
        return f"shared {_text(handle.attrs.get('container'))}/{shared}"
    # A table without a shared name that uses its node's name is shared under that name.
    named = handle.attrs.get("use_node_name_sharing", False)
    return f"shared {_text(handle.attrs.get('container'))}/{handle.name}" if named else f"node {handle.name}"


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else ""


def handle_of(nodes: Mapping[str, Node], ref: str) -> Node | None:
    """The handle node behind a table operand, through nodes that only pass it on."""
    node = nodes.get(node_of(ref))
    for _ in range(len(nodes)):
        if node is None or node.op not in _THROUGH or not node.inputs:
            break
        node = nodes.get(node_of(node.inputs[0]))
    return node if node is not None and node.op in HANDLES else None


class _Unknown(Exception):
    """Contents that are not known before the graph runs."""


class _Tables:
    def __init__(self, nodes: Mapping[str, Node], assets: Mapping[str, str], path: Path) -> None:
        self._nodes = nodes
        self._assets = {canonical(name): file for name, file in assets.items()}
        self._path = path
        self._assigned: dict[str, list[str]] = {}
        for node in nodes.values():
            if node.op == "AssignVariableOp" and len(node.inputs) > 1 and self._variable(node):
                self._assigned.setdefault(self._variable(node), []).append(node.inputs[1])

    def source(self, ref: str) -> Node | None:
        """The node that makes a tensor, through nodes that only pass it on."""
        node = self._nodes.get(node_of(ref))
        for _ in range(len(self._nodes)):
            following = self._passed(node)
            if following is None:
                break
            node = self._nodes.get(node_of(following))
        return node

    def _passed(self, node: Node | None) -> str | None:
        """The tensor that a node passes on; a variable passes on the one value that it is assigned."""
        if node is None or not node.inputs:
            return None
        if node.op in _THROUGH:
            return node.inputs[0]
        if node.op == "ReadVariableOp":
            values = self._assigned.get(self._variable(node), ())
            return values[0] if len(values) == 1 else None
        return None

    def _variable(self, node: Node) -> str:
        """What the handle that a node reads or assigns refers to; empty where that is not a plain handle."""
        handle = self._nodes.get(node_of(node.inputs[0]))
        return resource(handle) if handle is not None and handle.op == "VarHandleOp" else ""

    def contents(self, node: Node, handle: Node) -> LookupTable:
        """What one initialiser writes."""
        if handle.op.startswith("Mutable"):
            raise _Unknown(f"'{handle.name}' ({handle.op}) can change while the model runs")
        dtypes = [handle.attrs.get(key) for key in ("key_dtype", "value_dtype")]
        if not all(isinstance(d, str) and (d in NUMPY or d == "string") for d in dtypes):
            raise _Unknown(f"'{handle.name}' holds {dtypes}")
        key_dtype, value_dtype = str(dtypes[0]), str(dtypes[1])
        if len(node.inputs) < (3 if node.op in _FROM_VALUES else 2):
            raise _Unknown(f"'{node.name}' ({node.op}) has too few inputs")
        if node.op in _FROM_FILE:
            file = self._file(node.inputs[1])
            keys, values = read_vocabulary(file, node, key_dtype, value_dtype)
            source = str(file.relative_to(self._path))
        else:
            keys, values = (self._constant(ref) for ref in node.inputs[1:3])
            source = f"'{node.name}'"
        if len(keys) != len(values):
            got = f"{len(keys)} keys, {len(values)} values"
            raise ImportFailure("a lookup table has keys without values", where=node.name, got=got)
        return _distinct(LookupTable(keys, values, key_dtype, value_dtype, source), handle.name)

    def _constant(self, ref: str) -> np.ndarray[Any, Any]:
        return self._computed(ref).reshape(-1)

    def _computed(self, ref: str) -> np.ndarray[Any, Any]:
        """A constant, or what is computed of constants alone: a range, its size, integers of another width."""
        node = self.source(ref)
        value = node.attrs.get("value") if node is not None and node.op == "Const" else None
        if isinstance(value, np.ndarray):
            return value
        if node is None or node.op not in ("Cast", "Range", "Size"):
            raise _Unknown(f"'{ref}' is {node.op if node is not None else 'missing'}, not a constant")
        operands = [self._computed(i) for i in node.inputs if not i.startswith("^")]
        target = node.attrs.get("DstT", node.attrs.get("out_type", "int32"))
        if node.op == "Size":
            return np.array(operands[0].size, NUMPY[str(target)])
        if any(x.dtype.kind not in "iu" for x in operands):
            raise _Unknown(f"'{ref}' is {node.op} of what is no integer, not a constant")
        if node.op == "Range":
            start, limit, delta = (int(x) for x in operands)
            if delta == 0:
                raise _Unknown(f"'{ref}' is a range without a step")
            return np.arange(start, limit, delta).astype(operands[0].dtype)
        if target not in NUMPY or np.dtype(NUMPY[target]).kind not in "iu":
            raise _Unknown(f"'{ref}' is a cast to {target}, not a constant")
        return operands[0].astype(NUMPY[target])

    def _file(self, ref: str) -> Path:
        """The vocabulary file: the asset of the constant, or one of its name among the assets."""
        node = self.source(ref)
        if node is None:
            raise _Unknown(f"the file name '{ref}' comes from nowhere")
        asset = self._assets.get(node.name)
        if asset is None:
            value = self._constant(ref)
            stored = bytes(value[0]) if value.size == 1 and isinstance(value[0], bytes) else b""
            asset = "assets/" + stored.decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
        if ".." in Path(asset).parts or not (self._path / asset).is_file():
            folder = self._path / "assets"
            have = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
            raise ImportFailure("a vocabulary file is missing", where=node.name, got=listed(have), want=asset)
        return self._path / asset


def _distinct(table: LookupTable, name: str) -> LookupTable:
    """The table without repeated keys; a key with two values is an error, as in TensorFlow."""
    first: dict[Any, int] = {}
    keys = table.keys.tolist()
    kept = [i for i, key in enumerate(keys) if first.setdefault(key, i) == i]
    if len(kept) == len(keys):
        return table
    bad = [repr(key) for i, key in enumerate(keys) if table.values[i] != table.values[first[key]]]
    if bad:
        raise ImportFailure("a lookup table has keys with two values", where=name, got=listed(bad))
    return LookupTable(table.keys[kept], table.values[kept], table.key_dtype, table.value_dtype, table.source)


def read_vocabulary(
    file: Path, node: Node, key_dtype: str, value_dtype: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Keys and values of a vocabulary file, as InitializeTableFromTextFileV2 `node` reads it."""
    lines = list(_lines(file, node))
    sides = []
    for attr, dtype in (("key_index", key_dtype), ("value_index", value_dtype)):
        index = node.attrs.get(attr)
        if not isinstance(index, int):
            raise ImportFailure("a table's initialiser does not say what to read", where=node.name, want=attr)
        sides.append(_side(file, lines, index, dtype, node))
    return sides[0], sides[1]


def _delimiter(node: Node) -> bytes:
    value = node.attrs.get("delimiter", b"\t")
    return value if isinstance(value, bytes) and value else b"\t"


def _lines(file: Path, node: Node) -> Iterator[bytes]:
    """The lines that count: at most the first `vocab_size`."""
    size = node.attrs.get("vocab_size", -1)
    lines = [line.removesuffix(b"\r") for line in file.read_bytes().split(b"\n")]
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ImportFailure("a vocabulary file is empty", where=str(file), help="TensorFlow refuses to load it, too")
    if size is not None and size >= 0:
        if len(lines) < size:
            raise ImportFailure(
                "a vocabulary file is too short", where=str(file), got=f"{len(lines)} lines", want=f"{size} lines"
            )
        lines = lines[:size]
    empty = [str(number + 1) for number, line in enumerate(lines) if not line]
    if empty:
        raise ImportFailure("a vocabulary file has empty lines", where=str(file), got="lines " + ", ".join(empty[:20]))
    return iter(lines)


def _side(file: Path, lines: list[bytes], index: int, dtype: str, node: Node) -> np.ndarray[Any, Any]:
    """The keys or the values: the line, its number counted from `offset` on, or one of its fields."""
    if index == _LINE_NUMBER:
        numbers: np.ndarray[Any, Any] = np.arange(len(lines), dtype=NUMPY["int64"]) + node.attrs.get("offset", 0)
        return numbers.astype(NUMPY.get(dtype, NUMPY["int64"]))
    words = lines
    if index != _WHOLE_LINE:
        split = [line.split(_delimiter(node)) for line in lines]
        short = [str(number + 1) for number, parts in enumerate(split) if len(parts) <= index]
        if short or index < 0:
            raise ImportFailure(
                f"lines of a vocabulary file have no field {index}",
                where=str(file),
                got="lines " + ", ".join(short[:20]),
            )
        words = [parts[index] for parts in split]
    if dtype == "string":
        out = np.empty(len(words), object)
        out[:] = words
        return out
    return _numbers(file, words, dtype)


def _numbers(file: Path, words: list[bytes], dtype: str) -> np.ndarray[Any, Any]:
    read: Any = float if dtype in _FLOATS else int
    out = []
    bad = []
    for number, word in enumerate(words):
        try:
            if b"_" in word:  # Python reads 1_000, TensorFlow does not
                raise ValueError
            out.append(read(word))
        except ValueError:
            bad.append(f"line {number + 1}: {word!r}")
    if bad:
        raise ImportFailure("lines of a vocabulary file are not numbers", where=str(file), got=listed(bad), want=dtype)
    try:
        return np.array(out, NUMPY[dtype])
    except OverflowError:
        raise ImportFailure("numbers of a vocabulary file are too large", where=str(file), want=dtype) from None
