"""From a SavedModel to a graph of graph ops. Knows nothing of passes and backends; needs no TensorFlow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from colonnade.core.consts import Const
from colonnade.errors import ColonnadeError, ImportFailure, OptionError, UnsupportedOps, listed, told
from colonnade.frontends.tensorflow import saved_model, unread_tables, vocabulary_files
from colonnade.frontends.tensorflow.branches import CONTROL, UNDECIDED, Branches, said
from colonnade.frontends.tensorflow.bundle import Bundle
from colonnade.frontends.tensorflow.checkpoint import Stored, stored_variables
from colonnade.frontends.tensorflow.columns_fed import ColumnsFed
from colonnade.frontends.tensorflow.composites import plain_inputs
from colonnade.frontends.tensorflow.functions import BRANCH, EFFECTS, FlatGraph, canonical, inline, node_of, raw
from colonnade.frontends.tensorflow.lookup_tables import (
    HANDLES,
    LookupTable,
    LookupTables,
    handle_of,
    read_lookup_tables,
)
from colonnade.frontends.tensorflow.protos import NUMPY, MetaGraph, Signature, TensorInfo
from colonnade.frontends.tensorflow.protos import Node as Source
from colonnade.frontends.tensorflow.rules import RULES
from colonnade.frontends.tensorflow.spellings import SPELLINGS
from colonnade.ir.explanation import Notice
from colonnade.ir.graph import Graph, Node
from colonnade.ops.graph.constant import Constant
from colonnade.ops.graph.guard import Guard
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.variable import Variable
from colonnade.ops.op import GraphOp

HELD = frozenset({"Const", "Placeholder", "PlaceholderWithDefault", "Variable", "VariableV2", "VarHandleOp", *HANDLES})
"""Ops that hold a value and compute none."""
DEFAULT_SIGNATURE = "serving_default"
FLOW = ("Switch", "Merge")
SEVERAL_OUTPUTS = {
    *(
        "DynamicPartition",
        "FusedBatchNorm",
        "FusedBatchNormV2",
        "FusedBatchNormV3",
        "IdentityN",
        "ParseExample",
        "ParseExampleV2",
    ),
    *(
        "RaggedTensorToSparse",
        "SparseCross",
        "SparseFillEmptyRows",
        "SparseReorder",
        "SparseReshape",
        "SparseSlice",
        "Split",
        "SplitV",
        "StringSplitV2",
        "TopKV2",
        "Unique",
    ),
    "Unpack",
}


class VariableStore(Mapping[str, npt.NDArray[Any]]):
    """The variables of a model by node name, as views of the memory-mapped files.

    Facts: one that is stored in parts is put together, once for all that hold it at the same time.
    """

    def __init__(self, bundle: Bundle, stored: Mapping[str, Stored]) -> None:
        self._bundle = bundle
        self._stored = stored
        self._read: set[str] = set()
        self._held: WeakValueDictionary[str, npt.NDArray[Any]] = WeakValueDictionary()

    def __getitem__(self, key: str) -> npt.NDArray[Any]:
        self._read.add(key)
        found = self._held.get(key)
        if found is None:
            self._held[key] = found = self._stored[key].read(self._bundle)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._stored

    def check(self) -> None:
        """Compare the checksums of all variables that were read. Errors: ImportFailure that lists all that differ."""
        read = (self._stored[key] for key in sorted(self._read))
        self._bundle.check((stored.key, stored.extents) for stored in read)

    def described(self, key: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Dtype and shape of a variable."""
        return self._stored[key].described(self._bundle)

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
    check: Callable[[], None] = lambda: None
    """Compares the checksums of the variables that were read. Errors: ImportFailure that lists all that differ."""


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
    with told(ImportFailure, "the model cannot be read", path):
        return _imported(Path(path), open_source(path, signature, outputs, tags))


def _imported(path: Path, source: OpenSource) -> Imported:
    graph = _Importer(source.flat, source.signature, source.store, source.tables).build(source.outputs)
    files = vocabulary_files.look(path, source.tables.resources.values())
    warnings = (*unread_tables.look(source.meta), *files)
    return Imported(
        graph,
        source.signature.key,
        len(source.flat.nodes),
        source.fingerprint,
        _cones(source.flat),
        frozenset(node.name for node in source.flat.nodes if node.op not in HELD),
        warnings,
        source.store.check,
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
    for what, given in (("tags", tags), ("outputs", outputs)):
        if given is not None and (isinstance(given, str | bytes) or not isinstance(given, Collection)):
            raise OptionError(f"{what} are a list of names", got=repr(given), want=f"[{given!r}]")
    with told(ImportFailure, "the model cannot be read", path):
        return _opened(Path(path), signature, outputs, tags)


def _opened(path: Path, signature: str | None, outputs: Sequence[str] | None, tags: Sequence[str] | None) -> OpenSource:
    meta = saved_model.read(path, tags)
    bundle = saved_model.open_variables(path)
    chosen = _signature(meta, signature)
    chosen = replace(chosen, inputs=plain_inputs(chosen.inputs, meta.nodes))
    wanted = _outputs(chosen, outputs)
    flat = inline(meta, [_tensor(info, key) for key, info in wanted.items()], SEVERAL_OUTPUTS)
    store = VariableStore(bundle, stored_variables(meta, bundle))
    looks_up = any(source.op in HANDLES for source in flat.nodes)
    tables = read_lookup_tables(meta, path) if looks_up else LookupTables({}, {}, {})
    return OpenSource(meta, chosen, wanted, flat, store, tables, _fingerprint(flat, chosen, wanted, tables))


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
        want=str(key or DEFAULT_SIGNATURE),
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
            "a sparse or ragged tensor as an output is not supported yet", where=f"signature key {key!r}"
        )
    return info.name


class _Importer:
    """Walks the flat graph in topological order; collects what it cannot say, and variables without a value."""

    def __init__(self, flat: FlatGraph, signature: Signature, store: VariableStore, tables: LookupTables) -> None:
        self.flat = flat
        self.tables = tables
        self.by_name = {source.name: source for source in flat.nodes}
        self.handles: set[str] = set()
        self.store = store
        self.graph = Graph(store)
        self.values: dict[str, Node | tuple[Node, ...]] = {}
        self.unsupported: dict[str, str] = {}
        self.poisoned: set[str] = set()
        self.absent: list[str] = []
        self.asserts: list[Source] = []
        self.undecided: dict[str, str] = {}
        self.branches = Branches(self.graph, self.operand)
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
            dtype, shape = self.store.described(source.name)
        except (KeyError, ImportFailure) as error:
            self.absent.append(f"{source.name}: {error.message}" if isinstance(error, ImportFailure) else source.name)
            raise ImportFailure("the checkpoint holds no value for the variable", where=source.name) from error
        return self.graph.add(Variable(source.name, dtype.name, shape), source=source.name)

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
        self.dtypes = {key: info.dtype for key, info in wanted.items()}
        if self.absent:
            raise ImportFailure(
                f"the checkpoint holds no value for {len(self.absent)} variable(s) that the outputs need",
                got=listed(self.absent),
                help="copy the whole model, its folder `variables` too",
            )
        for ref in outputs.values():
            if node_of(ref) in self.undecided:
                self._refuse_undecided(node_of(ref))
        conditions = self._conditions()
        if self.unsupported:
            needed = self._needed((*map(node_of, outputs.values()), *self.flat.effects))
            self.unsupported = {name: why for name, why in self.unsupported.items() if name in needed}
        if self.unsupported:
            raise self._refusal(outputs)
        self.graph.set_outputs(self._guarded({key: self.operand(ref) for key, ref in outputs.items()}, conditions))
        self.graph.prune()
        return self.graph

    def _inputs(self) -> None:
        needed = {source.name: source for source in self.flat.nodes}
        for number, (ref, (key, info)) in enumerate(self.inputs.items()):
            if ":" in ref:
                raise ImportFailure("an input of the signature is not a placeholder", where=f"key {key!r}", got=ref)
            shape = info.shape
            dims = None if shape is None else tuple(_dim(d, number, k) for k, d in enumerate(shape))
            op = Placeholder(key, info.dtype, dims, _default(ref, info.dtype, needed))
            node = self.graph.input(key, op, source=ref)
            if ref in needed:
                self.values[ref] = node

    def _conditions(self) -> list[tuple[Source, Node]]:
        """Every assertion that may run, and what must hold for it."""
        found = []
        for source in self.asserts:
            if node_of(source.inputs[0]) in self.poisoned | self.unsupported.keys():
                continue  # what it needs is listed
            try:
                condition = self.branches.unless(self.operand(source.inputs[0]), self.flat.within.get(source.name, ()))
            except ColonnadeError as error:
                self.unsupported[source.name] = f"{source.op}: {error.message}"
                continue
            if condition is not None:
                found.append((source, condition))
        return found

    def _guarded(self, outputs: dict[str, Node], conditions: list[tuple[Source, Node]]) -> dict[str, Node]:
        """The outputs, one of them behind every assertion: a request that breaks one has no answer at all."""
        for source, condition in conditions:
            key = next((k for k, node in outputs.items() if self.dtypes[k] != "string"), next(iter(outputs)))
            op = Guard(said(source, self.values))
            outputs[key] = self.graph.add(op, outputs[key], condition, source=source.name)
        return outputs

    def _needed(self, roots: Iterable[str]) -> set[str]:
        """The source nodes that some need: of branches only those that run."""
        found: set[str] = set()
        stack = list(roots)
        while stack:
            name = stack.pop()
            if name in self.by_name and name not in found:
                found.add(name)
                stack.extend(self.branches.reads(self.by_name[name]))
        return found

    def _flow(self, source: Source) -> bool:
        """Whether the node is control flow or an assertion, and is done."""
        if self.branches.dies(source) or source.op == "NoOp":
            return True
        if source.op == "Assert":
            self.asserts.append(source)
            return True
        if source.op not in (BRANCH, EFFECTS) or self._lacks(source.inputs[:1]):
            return False
        taken = self.branches.choose(source)
        if taken is None:
            self.undecided[source.name] = source.name
        elif source.op == BRANCH:
            chosen = source.inputs[1 + taken]
            if self._lacks((chosen,)):
                self.poisoned.add(source.name)
            else:
                self.values[source.name] = self.operand(chosen)
        return True

    def _undecided(self, source: Source) -> bool:
        """Whether the node reads what only the data decide: waiting for it is fine, and so is passing it on."""
        read = {node_of(r) for r in source.inputs if not r.startswith("^")} & self.undecided.keys()
        if read and source.op == "Identity":
            self.undecided[source.name] = self.undecided[read.pop()]
            return False
        for name in read:
            self._refuse_undecided(name)
        return bool(read)

    def _refuse_undecided(self, name: str) -> None:
        branch = self.undecided[name]
        self.unsupported[branch] = f"{self.by_name[branch].op.strip('_')}: {UNDECIDED}"

    def _lacks(self, refs: Iterable[str]) -> bool:
        """Whether one of them is not supported, or needs what is not."""
        names = map(node_of, refs)
        return any(name in self.poisoned or name in self.unsupported for name in names)

    def _node(self, source: Source) -> None:
        if self._flow(source) or self._is_handle(source):
            return
        if self._undecided(source) or (source.op != "Merge" and self._lacks(source.inputs)):
            self.poisoned.add(source.name)
            return
        if source.name in self.undecided:
            return
        if source.op in FLOW:
            self._switched(source)
            return
        self._said(source)

    def _switched(self, source: Source) -> None:
        """Switch and Merge of TensorFlow 1."""
        try:
            if source.op == "Switch":
                self.values[source.name] = self.branches.switch(source)
                return
            ref, place = self.branches.merge(source)
        except ColonnadeError as error:
            self.unsupported[source.name] = f"{source.op}: {error.message}"
            return
        if self._lacks((ref,)):
            self.poisoned.add(source.name)
            return
        self.values[source.name] = (self.operand(ref), self.constant(place, "int32", source))

    def _said(self, source: Source) -> None:
        """A node that rules or spellings say."""
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
        """One error that lists every unsupported node with the columns and the outputs it feeds."""
        feeds: dict[str, list[str]] = {name: [] for name in self.unsupported}
        for key, ref in outputs.items():
            for name in feeds.keys() & self._needed((node_of(ref),)):
                feeds[name].append(key)
        columns = ColumnsFed(self.by_name, {node_of(ref): key for ref, (key, _) in self.inputs.items()})
        lines = [
            f"{name} ({op}) feeds {', '.join(feeds[name]) or 'an effect'}; {columns.of(name)}"
            for name, op in self.unsupported.items()
        ]
        bad = {key for keys in feeds.values() for key in keys}
        fine = [key for key in outputs if key not in bad]
        count = len(SPELLINGS) + len(RULES) + len(CONTROL)
        return UnsupportedOps(
            f"{len(lines)} node(s) of the model use ops that are not supported",
            got=listed(lines, limit=200),
            want=f"one of the {count} ops that `colonnade ops --source tensorflow` lists",
            help=f"compile the outputs that do not need them: --outputs {','.join(fine)}" if fine else "",
        )


def _default(ref: str, dtype: str, nodes: Mapping[str, Source]) -> Const | None:
    """What an input is that no request feeds, where that is a constant of the graph."""
    node = nodes.get(ref)
    if node is None or node.op != "PlaceholderWithDefault":
        return None
    made = nodes.get(node_of(node.inputs[0]))
    value = made.attrs.get("value") if made is not None and made.op == "Const" else None
    kind = np.dtype(object) if dtype == "string" else NUMPY.get(dtype)
    return Const(value) if isinstance(value, np.ndarray) and value.dtype == kind else None


def _dim(d: int | None, number: int, axis: int) -> int | str:
    if d is not None:
        return d
    return f"b{number}" if axis == 0 else f"b{number}_{axis}"


def _fingerprint(flat: FlatGraph, signature: Signature, outputs: Mapping[str, TensorInfo], tables: LookupTables) -> str:
    """Of the nodes that the outputs need, and which of them the signature names: another export of the same model has
    other saving nodes.
    """
    said = [sorted((key, repr(info)) for key, info in named.items()) for named in (signature.inputs, outputs)]
    h = hashlib.sha256(repr((signature.key, tuple(outputs), said)).encode())
    for source in flat.nodes:
        h.update(repr((source.name, source.op, source.inputs)).encode())
        h.update(raw(source.attrs))
        if source.op in HANDLES:
            table = tables.of({source.name: source}, source.name)
            h.update(repr(table and (Const(table.keys).digest, Const(table.values).digest)).encode())
    return h.hexdigest()
