"""Stored golden outputs: a small SavedModel, requests, and what TensorFlow answered, in one archive a model."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import OptionError
from colonnade.testing.models import ModelSpec, build, named
from colonnade.testing.models.feeds import Feed, corner_batch, hints_of, missing_feed, spec_corner_feed, spec_feed
from colonnade.testing.oracle import OracleError, TensorFlowModel

Array = NDArray[Any]

NAMES = ("micro10", "tiny", "tiny_varied")
ARCHIVES = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
CACHE = Path(".cache") / "golden"
CONCAT = "input_layer/concat"


@dataclass(frozen=True)
class GoldenSlot:
    """Where a column stands in the concat: `concat[:, offset : offset + width]` equals the tensor `source`."""

    column: str
    source: str
    offset: int
    width: int


@dataclass(frozen=True)
class GoldenCase:
    """A request and TensorFlow's answer.

    Facts: `outputs` are by signature name, `tensors` by graph tensor (`input_layer/concat:0`, for a model with a dense
    network also `score:0`); where TensorFlow raised, both are empty and `raises` is its message.
    """

    name: str
    feed: Feed
    outputs: dict[str, Array]
    tensors: dict[str, Array]
    raises: str = ""

    @property
    def concat(self) -> Array:
        """The columns' concat."""
        return self.tensors[f"{CONCAT}:0"]


@dataclass(frozen=True)
class Golden:
    """A stored model: its spec, its unpacked SavedModel, its columns' slots and its cases."""

    spec: ModelSpec
    model: Path
    slots: tuple[GoldenSlot, ...]
    cases: tuple[GoldenCase, ...]

    def case(self, name: str) -> GoldenCase:
        """The case of that name.

        Errors: OptionError where there is none.
        """
        for case in self.cases:
            if case.name == name:
                return case
        raise OptionError("no such case", got=name, want=", ".join(case.name for case in self.cases))


def load(name: str, folder: Path | None = None, archives: Path = ARCHIVES) -> Golden:
    """The stored model `name`, unpacked on first use into `folder` (a folder of the archive's hash under `CACHE`).

    Errors: OptionError where there is no such archive.
    """
    archive = archives / f"{name}.tar.xz"
    if not archive.exists():
        raise OptionError("no such golden archive", got=str(archive), want=", ".join(NAMES))
    content = archive.read_bytes()
    folder = folder or CACHE / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    if not folder.exists():
        _unpack(content, folder)
    index = json.loads((folder / "index.json").read_text())
    with np.load(folder / "cases.npz") as stored:
        cases = tuple(_read_case(case, stored) for case in index["cases"])
    slots = tuple(GoldenSlot(**slot) for slot in index["slots"])
    return Golden(named(name), folder / "model", slots, cases)


def record(name: str, archives: Path = ARCHIVES, seed: int = 0) -> Path:
    """Make the model `name`, ask TensorFlow, and store both; returns the archive.

    Facts: ordinary requests of 0, 1, 7 and 33 rows; corner requests of 1, 7 and 33 rows and of as many as show every
    corner of every input; one in which everything is missing; one in which an input has a row too many. The concat is
    checked to be its operands, bit for bit.
    """
    spec = named(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with TensorFlowModel(build(spec, folder / "model")) as oracle:
            slots = _slots(spec, oracle)
            cases = [_ask(oracle, spec, slots, label, feed) for label, feed in _requests(spec, seed)]
        index = {"slots": [vars(slot) for slot in slots], "cases": [_head(case) for case in cases]}
        (folder / "index.json").write_text(json.dumps(index, indent=1))
        arrays = {key: array for case in cases for key, array in _arrays(case)}
        np.savez(folder / "cases.npz", allow_pickle=False, **arrays)
        archives.mkdir(parents=True, exist_ok=True)
        return _pack(folder, archives / f"{name}.tar.xz")


def _requests(spec: ModelSpec, seed: int) -> Iterator[tuple[str, Feed]]:
    rng = np.random.default_rng(seed)
    for batch in (0, 1, 7, 33):
        yield f"ordinary-{batch}", spec_feed(spec, batch, rng)
    for batch in (1, 7, 33, corner_batch(spec.inputs, hints_of(spec))):
        yield f"corner-{batch}", spec_corner_feed(spec, batch, rng)
    yield "missing-5", missing_feed(spec.inputs, 5, hints_of(spec))
    longer = spec.columns[0].input
    yield "uneven", spec_feed(spec, 7, rng) | {longer.name: spec_feed(spec, 8, rng)[longer.name]}


def _slots(spec: ModelSpec, oracle: TensorFlowModel) -> tuple[GoldenSlot, ...]:
    by_node = {f"{c.name}_{'bucketized_' if c.boundaries else ''}embedding": c for c in spec.columns}
    slots: list[GoldenSlot] = []
    for tensor in oracle.operands(CONCAT)[:-1]:  # the last operand is the axis
        column = by_node[tensor.split("/")[1]]
        offset = slots[-1].offset + slots[-1].width if slots else 0
        slots.append(GoldenSlot(column.name, tensor, offset, column.embedding_dim))
    return tuple(slots)


def _ask(oracle: TensorFlowModel, spec: ModelSpec, slots: tuple[GoldenSlot, ...], label: str, feed: Feed) -> GoldenCase:
    inner = [f"{CONCAT}:0", *(["score:0"] if spec.top else [])]
    try:
        outputs = oracle.run(feed)
        found = oracle.run(feed, [*inner, *(slot.source for slot in slots)])
    except OracleError as error:
        return GoldenCase(label, feed, {}, {}, error.message)
    for slot in slots:
        part = found[inner[0]][:, slot.offset : slot.offset + slot.width]
        assert np.array_equal(part.view(np.int32), found[slot.source].view(np.int32)), slot
    return GoldenCase(label, feed, outputs, {name: found[name] for name in inner})


def _head(case: GoldenCase) -> dict[str, Any]:
    groups = {group: list(getattr(case, group)) for group in ("feed", "outputs", "tensors")}
    return {"name": case.name, "raises": case.raises, **groups}


def _arrays(case: GoldenCase) -> Iterator[tuple[str, Array]]:
    for group in ("feed", "outputs", "tensors"):
        values: Mapping[str, Array] = getattr(case, group)
        for key, value in values.items():
            stem = _stem(case.name, group, key)
            if value.dtype != object:
                yield stem, value
                continue
            flat = list(value.reshape(-1))
            yield f"{stem}#bytes", np.frombuffer(b"".join(flat), np.uint8)
            yield f"{stem}#lengths", np.array([len(each) for each in flat], np.int32)
            yield f"{stem}#shape", np.array(value.shape, np.int64)


def _read_case(head: Mapping[str, Any], stored: Any) -> GoldenCase:
    groups = {
        group: {key: _read_array(stored, _stem(head["name"], group, key)) for key in head[group]}
        for group in ("feed", "outputs", "tensors")
    }
    return GoldenCase(head["name"], groups["feed"], groups["outputs"], groups["tensors"], head["raises"])


def _read_array(stored: Any, stem: str) -> Array:
    if stem in stored:
        array: Array = stored[stem]
        return array
    content = stored[f"{stem}#bytes"].tobytes()
    lengths = stored[f"{stem}#lengths"]
    ends = np.cumsum(lengths, dtype=np.int64)
    strings = np.empty(len(lengths), object)
    strings[:] = [content[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    return strings.reshape(stored[f"{stem}#shape"])


def _stem(case: str, group: str, key: str) -> str:
    return f"{case}|{group}|{key.replace('/', '.')}"


def _pack(folder: Path, archive: Path) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            info = tar.gettarinfo(path, str(path.relative_to(folder)))
            # Whoever makes the archive, and when, is not part of it.
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                tar.addfile(info, content)
    archive.write_bytes(lzma.compress(buffer.getvalue(), preset=9))
    return archive


def _unpack(content: bytes, folder: Path) -> None:
    """Unpack under a temporary name and rename: whoever sees the folder sees all of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:xz") as tar:
            tar.extractall(temporary / "unpacked", filter="data")
        try:
            os.rename(temporary / "unpacked", folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(temporary)
