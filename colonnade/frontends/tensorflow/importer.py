"""From a SavedModel to a graph of graph ops. Knows nothing of passes and backends; needs no TensorFlow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.consts import Const
from colonnade.errors import ColonnadeError, ImportFailure, UnsupportedOps, listed
from colonnade.frontends.tensorflow import saved_model, unread_tables, vocabulary_files
from colonnade.frontends.tensorflow.bundle import Bundle
from colonnade.frontends.tensorflow.checkpoint import Stored, stored_variables
from colonnade.frontends.tensorflow.functions import FlatGraph, canonical, inline, node_of, raw
from colonnade.frontends.tensorflow.lookup_tables import (
    HANDLES,
    LookupTable,
    LookupTables,
    handle_of,
    read_lookup_tables,
)
from colonnade.frontends.tensorflow.protos import MetaGraph, Signature, TensorInfo
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.frontends.tensorflow.rules import RULES
from colonnade.frontends.tensorflow.spellings import SPELLINGS
from colonnade.ir.explanation import Notice
from colonnade.ir.graph import Graph, Node
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.variable import Variable
from colonnade.ops.op import GraphOp

HELD = frozenset({"Const", "Placeholder", "PlaceholderWithDefault", "Variable", "VariableV2", "VarHandleOp", *HANDLES})
"""Ops that hold a value and compute none."""
DEFAULT_SIGNATURE = "serving_default"


class VariableStore(Mapping[str, npt.NDArray[Any]]):
    """The variables of a model by node name, as views of the memory-mapped files."""

    def __init__(self, bundle: Bundle, stored: Mapping[str, Stored]) -> None:
        self._bundle = bundle
        self._stored = stored

    def __getitem__(self, key: str) -> npt.NDArray[Any]:
        return self._stored[key].read(self._bundle)

    def __iter__(self) -> Any:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


@dataclass(frozen=True)
class Imported:
    """A graph, and what it was made from.

    nodes: how many nodes of the source the outputs need.   fingerprint: of the graph and the signature, not of the
    weights.
    """

    graph: Graph
    signature: str
    nodes: int
    fingerprint: str
    cones: Callable[[str], frozenset[str]]
    """Source node -> the source nodes that it needs, itself included."""
    operators: frozenset[str] = frozenset()
    """The source nodes that compute something: no constants, inputs, variables or tables."""
    warnings: tuple[Notice, ...] = ()


def import_saved_model(
    path: Path | str,
    signature: str | None = None,
    outputs: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Imported:
    """The graph of one signature, as the owner saved it: no pass has run.

    outputs: only these outputs of the signature.
    Errors: ImportFailure for a path that is no SavedModel, an unknown tag set, signature or output; UnsupportedOps,
    which lists every node that cannot be said with the outputs it feeds.
    """
    source = open_source(path, signature, outputs, tags)
    graph = _Importer(source.flat, source.signature, source.store, source.tables).build(source.outputs)
    files = vocabulary_files.look(Path(path), source.tables.resources.values())
    warnings = (*unread_tables.look(source.meta), *files)
    return Imported(
        graph,
        source.signature.key,
        len(source.flat.nodes),
        source.fingerprint,
        _cones(source.flat),
        frozenset(node.name for node in source.flat.nodes if node.op not in HELD),
        warnings,
    )


@dataclass(frozen=True)
class OpenSource:
    """A SavedModel read but not yet imported: the nodes that the outputs need, the variables and lookup tables."""

    meta: MetaGraph
    signature: Signature
    outputs: Mapping[str, TensorInfo]
    flat: FlatGraph
    store: VariableStore
    tables: LookupTables
    fingerprint: str


def open_source(
    path: Path | str,
    signature: str | None = None,
    outputs: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> OpenSource:
    """Read a SavedModel. Errors: as `import_saved_model`, but for unsupported ops."""
    meta = saved_model.read(Path(path), tags)
    bundle = saved_model.open_variables(Path(path))
    chosen = _signature(meta, signature)
    wanted = _outputs(chosen, outputs)
    flat = inline(meta, [_tensor(info, key) for key, info in wanted.items()])
    store = VariableStore(bundle, stored_variables(meta, bundle))
    looks_up = any(source.op in HANDLES for source in flat.nodes)
    tables = read_lookup_tables(meta, Path(path)) if looks_up else LookupTables({}, {}, {})
    return OpenSource(meta, chosen, wanted, flat, store, tables, _fingerprint(flat, chosen.key, tuple(wanted), tables))


def _cones(flat: FlatGraph) -> Callable[[str], frozenset[str]]:
    reads = {source.name: source.inputs for source in flat.nodes}

    def cone(name: str) -> frozenset[str]:
        found: set[str] = set()
        stack = [name]
        while stack:
            node = stack.pop()
            if node in reads and node not in found:
                found.add(node)
                stack.extend(node_of(ref) for ref in reads[node])
        return frozenset(found)

    return cone


def _signature(meta: MetaGraph, key: str | None) -> Signature:
    callable_ = {k: s for k, s in meta.signatures.items() if not k.startswith("__")}
    if key is None:
        if DEFAULT_SIGNATURE in callable_:
            return callable_[DEFAULT_SIGNATURE]
        if len(callable_) == 1:
            return next(iter(callable_.values()))
    elif key in callable_:
        return callable_[key]
    raise ImportFailure(
        f"the model has no signature {key!r}" if key else "the model has no default signature",
        got=", ".join(sorted(callable_)) or "no signature at all",
        want=key or DEFAULT_SIGNATURE,
        help="name one of those it has with --signature",
    )


def _outputs(signature: Signature, names: Sequence[str] | None) -> dict[str, TensorInfo]:
    if names is None:
        return dict(signature.outputs)
    unknown = [n for n in names if n not in signature.outputs]
    if unknown or not names:
        raise ImportFailure(
            "the signature has no such output",
            where=f"signature {signature.key!r}",
            got=listed(unknown) or "no output",
            want=listed(sorted(signature.outputs)),
        )
    return {n: signature.outputs[n] for n in names}


def _tensor(info: TensorInfo, key: str) -> str:
    if not info.name:
        raise ImportFailure(
            "sparse and ragged tensors in signatures are not supported yet", where=f"signature key {key!r}"
        )
    return info.name


class _Importer:
    """Walks the flat graph in topological order; collects what it cannot say, and variables without a value."""

    def __init__(self, flat: FlatGraph, signature: Signature, store: VariableStore, tables: LookupTables) -> None:
        self.flat = flat
        self.tables = tables
        self.by_name = {source.name: source for source in flat.nodes}
        self.handles: set[str] = set()
        self.graph = Graph(store)
        self.values: dict[str, Node | tuple[Node, ...]] = {}
        self.unsupported: dict[str, str] = {}
        self.poisoned: set[str] = set()
        self.absent: list[str] = []
        self.inputs = {canonical(_tensor(info, key)): (key, info) for key, info in signature.inputs.items()}

    # -- what rules use ----------------------------------------------------------------------------------------------
    def operand(self, ref: str) -> Node:
        """The node for 'a' or 'a:1'."""
        name, _, index = ref.partition(":")
        value = self.values[name]
        if isinstance(value, tuple):
            return value[int(index or 0)]
        return self.graph.item(value, int(index or 0))

    def operands(self, source: Source) -> tuple[Node, ...]:
        """All data operands of a node."""
        return tuple(self.operand(ref) for ref in source.inputs if not ref.startswith("^"))

    def add(self, op: GraphOp, *args: Node, source: Source) -> Node:
        """Append an op."""
        if isinstance(op, Constant):
            return self.graph.constant(op.value, source.name)
        return self.graph.add(op, *args, source=source.name)

    def variable(self, source: Source) -> Node:
        """The variable's node. Errors: ImportFailure where the checkpoint has no value for it."""
        try:
            value = self.graph.store[source.name]
        except (KeyError, ImportFailure) as error:
            self.absent.append(f"{source.name}: {error.message}" if isinstance(error, ImportFailure) else source.name)
            raise ImportFailure("the checkpoint holds no value for the variable", where=source.name) from error
        return self.graph.add(Variable(source.name, value.dtype.name, value.shape), source=source.name)

    def constant(self, value: int, dtype: str, source: Source) -> Node:
        """A scalar constant."""
        return self.add(Constant(Const(np.array(value, dtype=dtype))), source=source)

    def table(self, ref: str) -> LookupTable:
        """The lookup table behind a handle. Errors: ImportFailure where its contents are not known."""
        found = self.tables.of(self.by_name, ref)
        if found is None:
            handle = handle_of(self.by_name, ref)
            why = self.tables.unknown.get(handle.name if handle else "", "the model does not initialise it")
            raise ImportFailure("the contents of a lookup table are not known", where=ref, got=why)
        return found

    # -- the walk ----------------------------------------------------------------------------------------------------
    def build(self, wanted: Mapping[str, TensorInfo]) -> Graph:
        """The graph with its outputs."""
        fed = {node_of(ref) for ref in self.inputs}
        self._inputs()
        for source in self.flat.nodes:
            if source.name not in fed:
                self._node(source)
        outputs = {key: canonical(self.flat.tensors[info.name]) for key, info in wanted.items()}
        if self.absent:
            raise ImportFailure(
                f"the checkpoint holds no value for {len(self.absent)} variable(s) that the outputs need",
                got=listed(self.absent),
                help="copy the whole model, its folder `variables` too",
            )
        if self.unsupported:
            raise self._refusal(outputs)
        self.graph.set_outputs({key: self.operand(ref) for key, ref in outputs.items()})
        self.graph.prune()
        return self.graph

    def _inputs(self) -> None:
        needed = {source.name for source in self.flat.nodes}
        for number, (ref, (key, info)) in enumerate(self.inputs.items()):
            if ":" in ref:
                raise ImportFailure("an input of the signature is not a placeholder", where=f"key {key!r}", got=ref)
            shape = info.shape
            dims = None if shape is None else tuple(_dim(d, number, k) for k, d in enumerate(shape))
            node = self.graph.input(key, Placeholder(key, info.dtype, dims), source=ref)
            if ref in needed:
                self.values[ref] = node

    def _node(self, source: Source) -> None:
        if source.op == "NoOp" or self._is_handle(source):
            return
        for ref in source.inputs:
            name = node_of(ref)
            if name in self.poisoned or name in self.unsupported:
                self.poisoned.add(source.name)
                return
        rule = RULES.get(source.op)
        spelling = SPELLINGS.get(source.op)
        if rule is None and spelling is None:
            self.unsupported[source.name] = source.op
            return
        try:
            if rule is not None:
                self.values[source.name] = rule(self, source)
            elif spelling is not None:
                self.values[source.name] = self.add(spelling(source.attrs), *self.operands(source), source=source)
        except ColonnadeError as error:
            self.unsupported[source.name] = f"{source.op}: {error.message}" + (f" ({error.got})" if error.got else "")

    def _is_handle(self, source: Source) -> bool:
        """Whether it is the handle of a lookup table, or passes one on: no value of its own."""
        passed = source.op == "Identity" and node_of(source.inputs[0]) in self.handles
        if passed or source.op in HANDLES:
            self.handles.add(source.name)
        return source.name in self.handles

    def _refusal(self, outputs: Mapping[str, str]) -> UnsupportedOps:
        """One error that lists every unsupported node with the outputs it feeds."""
        by_name = self.by_name
        feeds: dict[str, list[str]] = {name: [] for name in self.unsupported}
        for key, ref in outputs.items():
            stack, seen = [node_of(ref)], set()
            while stack:
                name = stack.pop()
                if name in seen or name not in by_name:
                    continue
                seen.add(name)
                if name in feeds:
                    feeds[name].append(key)
                stack.extend(node_of(i) for i in by_name[name].inputs)
        lines = [
            f"{name} ({op}) feeds {', '.join(feeds[name]) or 'an effect'}" for name, op in self.unsupported.items()
        ]
        bad = {key for keys in feeds.values() for key in keys}
        fine = [key for key in outputs if key not in bad]
        return UnsupportedOps(
            f"{len(lines)} node(s) of the model use ops that are not supported",
            got=listed(lines, limit=200),
            want=f"one of the {len(SPELLINGS) + len(RULES)} ops that `colonnade ops --source tensorflow` lists",
            help=f"compile the outputs that do not need them: --outputs {','.join(fine)}" if fine else "",
        )


def _dim(d: int | None, number: int, axis: int) -> int | str:
    if d is not None:
        return d
    return f"b{number}" if axis == 0 else f"b{number}_{axis}"


def _fingerprint(flat: FlatGraph, signature: str, outputs: Sequence[str], tables: LookupTables) -> str:
    """Of the nodes that the outputs need: another export of the same model has other saving nodes."""
    h = hashlib.sha256(repr((signature, tuple(outputs))).encode())
    for source in flat.nodes:
        h.update(repr((source.name, source.op, source.inputs)).encode())
        h.update(raw(source.attrs))
        if source.op in HANDLES:
            table = tables.of({source.name: source}, source.name)
            h.update(repr(table and (Const(table.keys).digest, Const(table.values).digest)).encode())
    return h.hexdigest()
