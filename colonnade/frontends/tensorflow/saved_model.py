"""Finds a SavedModel's files and reads its graph and its variables."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

from colonnade.errors import ImportFailure, listed
from colonnade.frontends.tensorflow import wire
from colonnade.frontends.tensorflow.bundle import Bundle
from colonnade.frontends.tensorflow.protos import (
    Function,
    MetaGraph,
    NodeReader,
    OpDef,
    Saver,
    Signature,
    read_op_def,
    read_signature,
    read_tensor_info,
)
from colonnade.frontends.tensorflow.wire import BYTES, Span, damaged

SERVE = "serve"
_FILE = "saved_model.pb"
_INIT_SIGNATURE = "__saved_model_init_op"
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op", "saved_model_legacy_init_op")
_ASSETS = "saved_model_assets"
_META_INFO, _GRAPH, _SAVER, _COLLECTION, _SIGNATURE, _ASSET = 1, 2, 3, 4, 5, 6


def read(path: Path, tags: Sequence[str] | None = None) -> MetaGraph:
    """The graph of the SavedModel in directory `path` that has exactly `tags` (default: 'serve').

    Errors: ImportFailure where there is no SavedModel, its file is damaged, or no graph has these tags.
    """
    file = _find(Path(path))
    with file.open("rb") as opened:
        if not file.stat().st_size:
            raise damaged(f"{_FILE} is empty", where=str(file), got="0 bytes")
        kept = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    try:
        # Parsing bytes is faster than parsing a map; the copy is dropped, attributes refer to the map.
        return _Reader(kept[:], kept).meta_graph(tuple(tags) if tags is not None else (SERVE,))
    except ImportFailure as error:
        where = str(file) + (f", {error.where}" if error.where else "")
        raise ImportFailure(error.message, where=where, got=error.got, want=error.want, help=error.help) from None


def open_variables(path: Path) -> Bundle:
    """The variables of the SavedModel in directory `path`, memory-mapped; an empty bundle where it has none.

    Errors: ImportFailure where an index or a data file is missing, truncated or damaged.
    """
    folder = Path(path) / "variables"
    if not folder.is_dir() or not any(folder.iterdir()):
        return Bundle.empty(folder / "variables")
    return Bundle(folder / "variables")


def _find(path: Path) -> Path:
    """The saved_model.pb of a model directory."""
    if not path.is_dir():
        got = "a file" if path.exists() else "nothing"
        hint = "give the directory that holds saved_model.pb"
        raise ImportFailure("not a SavedModel directory", where=str(path), got=got, want="a directory", help=hint)
    file = path / _FILE
    if file.is_file():
        return file
    held = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir())
    got = listed(held) if held else "an empty directory"
    hint = "give the directory that holds saved_model.pb"
    if "saved_model.pbtxt" in held:
        hint = "text protobufs are not read: save the model again in binary form (saved_model.pb)"
    elif "saved_model.cpb" in held:
        hint = "chunked protobufs are not read: save the model with its variables outside the graph"
    else:
        inner = sorted(str(p.parent.name) for p in path.glob(f"*/{_FILE}"))
        if inner:
            hint = "this directory holds models: give one of " + ", ".join(inner)
    raise ImportFailure(f"no {_FILE} in the directory", where=str(path), got=got, want=_FILE, help=hint)


class _Reader:
    """Reads one saved_model.pb; `buf` is parsed, `kept` is what lazily read attributes refer to."""

    def __init__(self, buf: bytes, kept: wire.Buffer) -> None:
        self._buf = buf
        self._kept = kept

    def meta_graph(self, tags: tuple[str, ...]) -> MetaGraph:
        buf = self._buf
        graphs = list(wire.spans(buf, 0, len(buf), 2))
        if not graphs:
            raise damaged(f"{_FILE} holds no graph", got=f"{len(buf)} bytes", want="a SavedModel protobuf")
        every = [self._tags(*graph) for graph in graphs]
        for graph, found in zip(graphs, every, strict=True):
            if set(found) == set(tags):
                return self._read(found, *graph)
        got = ", ".join(tags) or "no tags"
        have = listed([", ".join(found) or "(no tags)" for found in every])
        raise ImportFailure("no graph of the model has exactly these tags", got=got, want=have, help="pass tags=")

    def _tags(self, start: int, end: int) -> tuple[str, ...]:
        info = wire.span(self._buf, start, end, _META_INFO)
        return wire.texts(self._buf, *info, 4) if info is not None else ()

    def _read(self, tags: tuple[str, ...], start: int, end: int) -> MetaGraph:
        buf = self._buf
        parts: dict[int, list[Span]] = {}
        for number, kind, a, b in wire.fields(buf, start, end):
            if kind == BYTES:
                parts.setdefault(number, []).append((a, b))
        info = parts.get(_META_INFO, [(end, end)])[-1]
        ops = self._ops(*info)
        reader = NodeReader(buf, self._kept, ops)
        graphs = parts.get(_GRAPH, [])
        collections = dict(wire.entry(buf, a, b) for a, b in parts.get(_COLLECTION, []))
        signatures = dict(self._signatures(parts.get(_SIGNATURE, [])))
        init = signatures.pop(_INIT_SIGNATURE, None)
        return MetaGraph(
            tags=tags,
            nodes=tuple(node for graph in graphs for node in reader.nodes(*graph, 1)),
            functions={f.name: f for graph in graphs for f in self._functions(reader, *graph)},
            signatures=signatures,
            assets=self._assets(parts.get(_ASSET, []) + self._asset_collection(collections)),
            init_op=_init_node(init) or self._init_op(collections),
            saver=self._saver(*parts[_SAVER][-1]) if _SAVER in parts else None,
            ops=ops,
            tensorflow_version=wire.text(buf, *(wire.span(buf, *info, 5) or (end, end))),
        )

    def _ops(self, start: int, end: int) -> dict[str, OpDef]:
        found = wire.span(self._buf, start, end, 2)
        if found is None:
            return {}
        ops = (read_op_def(self._buf, a, b) for a, b in wire.spans(self._buf, *found, 1))
        return {op.name: op for op in ops}

    def _functions(self, reader: NodeReader, start: int, end: int) -> Iterator[Function]:
        for a, b in wire.spans(self._buf, start, end, 2):
            for c, d in wire.spans(self._buf, a, b, 1):
                yield reader.function(c, d)

    def _signatures(self, parts: list[Span]) -> Iterator[tuple[str, Signature]]:
        for a, b in parts:
            key, value = wire.entry(self._buf, a, b)
            yield key, read_signature(self._buf, key, *value)

    def _assets(self, parts: list[Span]) -> dict[str, str]:
        out = {}
        for a, b in parts:
            info = wire.span(self._buf, a, b, 1) or (b, b)
            file = wire.span(self._buf, a, b, 2) or (b, b)
            out[read_tensor_info(self._buf, *info).name] = "assets/" + wire.text(self._buf, *file)
        return out

    def _asset_collection(self, collections: dict[str, Span]) -> list[Span]:
        """The AssetFileDefs that TensorFlow 1 keeps as `Any` messages in a collection."""
        buf = self._buf
        packed = (
            s
            for any_list in wire.spans(buf, *collections.get(_ASSETS, (0, 0)), 5)
            for s in wire.spans(buf, *any_list, 1)
        )
        return [value for value in (wire.span(buf, *item, 2) for item in packed) if value is not None]

    def _init_op(self, collections: dict[str, Span]) -> str:
        """The node named by a TensorFlow 1 collection."""
        for name in _INIT_COLLECTIONS:
            for a, b in wire.spans(self._buf, *collections.get(name, (0, 0)), 1):
                nodes = wire.texts(self._buf, a, b, 1)
                if nodes:
                    return nodes[0].split(":")[0]
        return ""

    def _saver(self, start: int, end: int) -> Saver:
        words = [wire.text(self._buf, *(wire.span(self._buf, start, end, n) or (end, end))) for n in (1, 2, 3)]
        return Saver(*words)


def _init_node(signature: Signature | None) -> str:
    """The node named by a TensorFlow 2 init signature."""
    infos = list(signature.outputs.values()) if signature is not None else []
    return infos[0].name.split(":")[0] if infos else ""
