"""The artifact: the directory that a compiled model is saved in and loaded from.

    manifest.json              format, versions, source, and size and sha256 of every file
    program.txt                the program's text
    consts.safetensors         constants that the text names by digest
    dense.safetensors          parameters of the dense rest
    tables/0000-NAME.safetensors   one table a file; its rows start at a multiple of 4,096
    compiled/...               files of the backend, opaque
    golden/golden.safetensors  recorded requests and answers

Facts: written to a temporary sibling and renamed, so that an interrupt leaves the old artifact; the same content gives
the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.core import tensor_file
from colonnade.core.consts import Const
from colonnade.core.tensor_file import CARRIERS, Tensor, TensorFile, TensorFileError
from colonnade.errors import ArtifactError, TextError, listed
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights
from colonnade.ir.text import by_digest, consts_of, parse_program, print_program
from colonnade.ops.op import torch_dtype
from colonnade.version import __version__

Array = npt.NDArray[Any]
Progress = Callable[[str, int, int], None]
"""Called with the file, and how many of how many bytes (of all files) are done."""

FORMAT = 1
KIND = "colonnade artifact"
MANIFEST, PROGRAM, CONSTS, DENSE = "manifest.json", "program.txt", "consts.safetensors", "dense.safetensors"
GOLDEN, COMPILED = "golden/golden.safetensors", "compiled"
EXPLANATION = "explanation.json"
CHECKS = ("fast", "full")
WEIGHTS = ("dense", "table")
SYNCS = 16


@dataclass(frozen=True)
class Golden:
    """A recorded request and its answer: name -> array (strings: object arrays of bytes)."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


@dataclass(frozen=True)
class FileFacts:
    """A file's part (program, consts, dense, table, compiled, golden), its size in bytes and its sha256."""

    part: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an artifact holds, and what wrote it.

    source: fingerprint of the model it was compiled from, as the frontend gives it, or "".
    files: path within the artifact -> facts; the files of tables stand in the order of the program's tables.
    """

    colonnade: str
    created_by: Mapping[str, str]
    source: str
    files: Mapping[str, FileFacts]
    format: int = FORMAT

    def paths(self, part: str) -> list[str]:
        """The files of a part, in order."""
        return [path for path, facts in self.files.items() if facts.part == part]


@dataclass(frozen=True)
class Loaded:
    """An artifact in memory. Facts: tables are views of memory-mapped files, never to be written to."""

    program: Program
    weights: Weights
    compiled_dir: Path | None
    golden: Golden | None
    explanation: Explanation
    manifest: Manifest


@dataclass(frozen=True)
class Written:
    """The files that a save wrote and those it took over from the old artifact, each with its size in bytes."""

    written: Mapping[str, int]
    reused: Mapping[str, int]

    @property
    def bytes_written(self) -> int:
        """Units: bytes."""
        return sum(self.written.values())

    @property
    def bytes_reused(self) -> int:
        """Units: bytes."""
        return sum(self.reused.values())


def same_source(manifest: Manifest, fingerprint: str) -> bool:
    """Whether the artifact was compiled from a model of that fingerprint (weights aside)."""
    return bool(fingerprint) and manifest.source == fingerprint


# Saving


def save(
    directory: Path | str,
    program: Program,
    weights: Weights,
    *,
    compiled: Mapping[str, Path] | None = None,
    golden: Golden | None = None,
    explanation: Explanation | None = None,
    source: str = "",
    progress: Progress | None = None,
) -> Written:
    """Write an artifact, in place of the one that may stand there.

    compiled: path within `compiled/` -> file to copy.   explanation: what the compilation did.
    source: the fingerprint of the model, for `same_source`.
    Errors: ArtifactError where the weights do not fit the program, or where something else stands at `directory`.
    """
    contents = _contents(program, weights, compiled or {}, golden, explanation or Explanation())
    return _save(Path(directory), contents, source, progress, None)


def refresh(
    old: Path | str,
    new: Path | str,
    weights: Weights,
    *,
    golden: Golden | None = None,
    progress: Progress | None = None,
) -> Written:
    """Save the program of an artifact with other weights; files whose content is the same are linked, not written.

    new: may be `old`.   golden: without one, the old rows are kept only where no weight changed.
    """
    old = Path(old)
    loaded = load(old)
    base = loaded.compiled_dir
    compiled = {} if base is None else {p.relative_to(base).as_posix(): p for p in _compiled_files(old, loaded)}
    contents = _contents(loaded.program, weights, compiled, golden, loaded.explanation)
    reuse = _Old(old, loaded.manifest)
    if golden is None and loaded.golden is not None and all(reuse.same(c) for c in contents if c.part in WEIGHTS):
        contents.append(_golden(loaded.golden))
    return _save(Path(new), contents, loaded.manifest.source, progress, reuse)


@dataclass(frozen=True)
class _Content:
    """A file to write: its bytes in pieces, as often as they are asked for."""

    path: str
    part: str
    size: int
    chunks: Callable[[], Iterable[Array]]


def _contents(
    program: Program,
    weights: Weights,
    compiled: Mapping[str, Path],
    golden: Golden | None,
    explanation: Explanation,
) -> list[_Content]:
    """The files of an artifact but the manifest. Errors: ArtifactError that lists all that does not fit."""
    text = print_program(program).encode()
    consts = {d: c for d, c in {**weights.consts, **consts_of(program)}.items() if by_digest(c)}
    found = [_bytes(PROGRAM, "program", text), _tensors(CONSTS, "consts", {d: c.array for d, c in consts.items()})]
    found.append(_bytes(EXPLANATION, "explanation", explanation.to_json().encode()))
    found.append(_tensors(DENSE, "dense", _checked_params(program, weights)))
    tables = _checked_tables(program, weights)
    for index, (name, item) in enumerate(tables.items()):
        found.append(_tensors(f"tables/{index:04d}-{safe_name(name)}.safetensors", "table", {name: item}))
    found.extend(_file(f"{COMPILED}/{_inside(name)}", "compiled", path) for name, path in sorted(compiled.items()))
    if golden is not None:
        found.append(_golden(golden))
    return found


def safe_name(name: str) -> str:
    """A name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:80]


def _bytes(path: str, part: str, data: bytes) -> _Content:
    return _Content(path, part, len(data), lambda: [np.frombuffer(data, np.uint8)])


def _tensors(path: str, part: str, arrays: Mapping[str, Array | Tensor]) -> _Content:
    try:
        tensors, metadata = tensor_file.with_strings(arrays)
    except TensorFileError as e:
        raise ArtifactError("an array cannot be stored", where=path, got=str(e)) from e
    size = tensor_file.size(tensors, metadata)
    return _Content(path, part, size, lambda: tensor_file.chunks(tensors, metadata))


def _file(path: str, part: str, source: Path) -> _Content:
    if not source.is_file():
        raise ArtifactError("a file to save is missing", where=str(source), got=_what_is(source))
    return _Content(path, part, source.stat().st_size, lambda: _read_chunks(source))


def _golden(golden: Golden) -> _Content:
    rows = {f"input:{k}": np.asarray(v) for k, v in golden.inputs.items()}
    rows |= {f"output:{k}": np.asarray(v) for k, v in golden.outputs.items()}
    return _tensors(GOLDEN, "golden", rows)


def _read_chunks(path: Path) -> Iterator[Array]:
    with path.open("rb") as file:
        while data := file.read(tensor_file.CHUNK):
            yield np.frombuffer(data, np.uint8)


def _inside(name: str) -> str:
    """A path that stays inside its folder. Errors: ArtifactError."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or "\0" in name:
        raise ArtifactError("a file's path leads out of the artifact", got=name)
    return path.as_posix()


def _checked_tables(program: Program, weights: Weights) -> dict[str, Tensor]:
    wrong: list[str] = []
    found: dict[str, Tensor] = {}
    for table in program.tables:
        array = weights.tables.get(table.name)
        want = f"{table.dtype}[{table.rows}, {table.embedding_dim}]"
        if array is None:
            wrong.append(f"table {table.name!r}: no weights, want {want}")
        elif array.shape != (table.rows, table.embedding_dim) or array.dtype.name != CARRIERS.get(
            table.dtype, table.dtype
        ):
            wrong.append(f"table {table.name!r}: {array.dtype.name}{list(array.shape)}, want {want}")
        else:
            found[table.name] = _stored(f"table {table.name!r}", array, table.dtype)
    _refuse(wrong)
    return found


def _checked_params(program: Program, weights: Weights) -> dict[str, Tensor]:
    wrong: list[str] = []
    found: dict[str, Tensor] = {}
    for name, dtype, shape in program.params:
        value = weights.params.get(name)
        got = "no weights" if value is None else f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if value is None or got != f"{dtype}{list(shape)}":
            wrong.append(f"parameter {name!r}: {got}, want {dtype}{list(shape)}")
        else:
            found[name] = _stored(f"parameter {name!r}", _array_of(value), dtype)
    _refuse(wrong)
    return found


def _refuse(wrong: list[str]) -> None:
    if wrong:
        raise ArtifactError("the weights do not fit the program", got=listed(wrong))


def _stored(what: str, array: Array, dtype: str) -> Tensor:
    try:
        return tensor_file.tensor(array, dtype)
    except TensorFileError as e:
        raise ArtifactError("an array cannot be stored", where=what, got=str(e)) from e


def _array_of(value: torch.Tensor) -> Array:
    value = value.detach().cpu().contiguous()
    return value.view(torch.uint16).numpy() if value.dtype == torch.bfloat16 else value.numpy()


def _save(target: Path, contents: list[_Content], source: str, progress: Progress | None, old: _Old | None) -> Written:
    """Write all files beside the target, then put them in its place."""
    target = Path(os.path.realpath(target))
    _check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(target, "saving")
    temporary.mkdir()
    try:
        writer = _Writer(temporary, sum(c.size for c in contents), progress, old)
        for content in contents:
            writer.put(content)
        writer.finish(source)
        _replace(temporary, target)
    finally:
        # After the rename there is nothing left here.
        shutil.rmtree(temporary, ignore_errors=True)
    return Written(writer.written, writer.reused)


def _sibling(target: Path, what: str) -> Path:
    return target.with_name(f".{target.name}.{what}-{secrets.token_hex(4)}")


def _check_target(target: Path) -> None:
    """Only an artifact or an empty directory is replaced."""
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return
    if not (target / MANIFEST).is_file():
        raise ArtifactError(
            "only an artifact is replaced",
            where=str(target),
            got=_what_is(target),
            help="choose another directory, or remove this one",
        )


def _replace(temporary: Path, target: Path) -> None:
    """Rename into place; what stood there is renamed away first, and back if the second rename fails."""
    if not os.path.lexists(target):
        temporary.rename(target)
        _sync(target.parent)
        return
    aside = _sibling(target, "old")
    try:
        target.rename(aside)
        temporary.rename(target)
    finally:
        if not os.path.lexists(target):
            aside.rename(target)
    _sync(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass
class _Writer:
    """Writes the files of an artifact into a folder; the manifest comes last."""

    folder: Path
    total: int
    progress: Progress | None
    old: _Old | None
    done: int = 0
    files: dict[str, FileFacts] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    reused: dict[str, int] = field(default_factory=dict)

    def put(self, content: _Content) -> None:
        """Write a file, or link the old artifact's where its content is the same."""
        path = self.folder / content.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.old is not None and self.old.same(content):
            _link(self.old.folder / content.path, path)
            self.files[content.path] = self.old.manifest.files[content.path]
            self.reused[content.path] = content.size
            self._advance(content.path, content.size)
        else:
            self.files[content.path] = FileFacts(content.part, content.size, self._write(path, content))
            self.written[content.path] = content.size

    def finish(self, source: str) -> None:
        """Write the manifest and make all files and folders durable."""
        manifest = Manifest(__version__, _created_by(), source, self.files)
        data = manifest_text(manifest).encode()
        self._write(self.folder / MANIFEST, _bytes(MANIFEST, "manifest", data), report=False)
        # Side by side, since the file system commits many at once: one after the other, 1,000 tables took 12 s.
        with ThreadPoolExecutor(SYNCS) as pool:
            list(pool.map(_sync, sorted(self.folder.rglob("*"))))
        _sync(self.folder)

    def _write(self, path: Path, content: _Content, report: bool = True) -> str:
        digest = hashlib.sha256()
        with path.open("wb", buffering=0) as file:
            for chunk in content.chunks():
                view = chunk.data
                digest.update(view)
                while view:
                    view = view[file.write(view) :]
                if report:
                    self._advance(content.path, chunk.size)
        return digest.hexdigest()

    def _advance(self, path: str, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(path, self.done, self.total)


@dataclass
class _Old:
    """An artifact whose files may be taken over."""

    folder: Path
    manifest: Manifest
    verdicts: dict[str, bool] = field(default_factory=dict)

    def same(self, content: _Content) -> bool:
        """Whether the old file holds these very bytes. Facts: reads up to the first difference, once a file."""
        if content.path not in self.verdicts:
            self.verdicts[content.path] = self._same(content)
        return self.verdicts[content.path]

    def _same(self, content: _Content) -> bool:
        facts = self.manifest.files.get(content.path)
        if facts is None or (facts.size, facts.part) != (content.size, content.part):
            return False
        with (self.folder / content.path).open("rb") as file:
            return all(np.array_equal(np.frombuffer(file.read(c.size), np.uint8), c) for c in content.chunks())


def _link(source: Path, target: Path) -> None:
    """A hard link, or a copy where the file system has none between the two."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _created_by() -> dict[str, str]:
    return {
        "machine": platform.machine(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


# The manifest


def manifest_text(manifest: Manifest) -> str:
    """The manifest as JSON, with the hash of its own content."""
    content = {
        "kind": KIND,
        "format": manifest.format,
        "colonnade": manifest.colonnade,
        "created_by": dict(manifest.created_by),
        "source": manifest.source,
        "files": {path: {"part": f.part, "size": f.size, "sha256": f.sha256} for path, f in manifest.files.items()},
    }
    return json.dumps({**content, "sha256": _content_hash(content)}, indent=1, ensure_ascii=False) + "\n"


def _content_hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def read_manifest(directory: Path | str) -> Manifest:
    """The manifest of an artifact. Errors: ArtifactError where there is none, it is damaged, or its format is newer."""
    directory = Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise _no_artifact(directory)
    try:
        content = json.loads(_read(path))
    except ValueError as e:
        raise _damaged(path, f"no JSON: {e}") from e
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ArtifactError("this is not an artifact", where=str(path), got="a manifest of something else")
    _check_format(path, content)
    if content.pop("sha256", None) != _content_hash(content):
        raise _damaged(path, "its content does not have its hash")
    try:
        return _manifest(content)
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise _damaged(path, f"unreadable: {e}") from e


def _check_format(path: Path, content: Mapping[str, Any]) -> None:
    version = content.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _damaged(path, f"format {version!r}")
    if version > FORMAT:
        raise ArtifactError(
            "the artifact is newer than this version of colonnade",
            where=str(path),
            got=f"format {version}, written by colonnade {content.get('colonnade')}",
            want=f"format {FORMAT} or older; this is colonnade {__version__}",
            help=f"install colonnade {content.get('colonnade')} or newer, or compile the model again",
        )


def _manifest(content: Mapping[str, Any]) -> Manifest:
    files = {_inside(path): FileFacts(**facts) for path, facts in content["files"].items()}
    created = {str(k): str(v) for k, v in content["created_by"].items()}
    return Manifest(str(content["colonnade"]), created, str(content["source"]), files, content["format"])


def _no_artifact(directory: Path) -> ArtifactError:
    beside = directory.parent.iterdir() if directory.parent.is_dir() else ()
    aside = sorted(p for p in beside if p.name.startswith(f".{directory.name}.old-"))
    saved = f"a save was cut off; the artifact that stood here is {aside[0]}" if aside else ""
    return ArtifactError(
        "this is not an artifact",
        where=str(directory),
        got=_what_is(directory),
        want=f"a directory with {MANIFEST}, as `colonnade compile` writes it",
        help=saved,
    )


def _what_is(path: Path) -> str:
    if not os.path.lexists(path):
        return "nothing is there"
    if not path.is_dir():
        return "a file" if path.is_file() else "neither a file nor a directory"
    names = sorted(p.name for p in path.iterdir())
    if "saved_model.pb" in names:
        return "a SavedModel: compile it first"
    return "a directory with " + ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "an empty one"


def _damaged(path: Path, got: str, want: str = "") -> ArtifactError:
    help = "copy the artifact again, or compile the model again"
    return ArtifactError("the artifact is damaged", where=str(path), got=got, want=want, help=help)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise _damaged(path, e.strerror or str(e)) from e


# Loading


def load(directory: Path | str, *, check: str = "fast", progress: Progress | None = None) -> Loaded:
    """Load an artifact; tables are memory-mapped.

    check: `fast` checks versions, the sizes of all files, and the hashes of all but the tables; `full` those too.
    Errors: ArtifactError that lists every damaged or missing file.
    """
    if check not in CHECKS:
        raise ArtifactError("no such check", got=check, want=", ".join(CHECKS))
    directory = Path(directory)
    manifest = read_manifest(directory)
    _check_files(directory, manifest, check, progress)
    consts = {d: Const(a) for d, a in _tensor_file(directory / CONSTS).arrays().items()}
    program = _program(directory, consts)
    weights = Weights(
        tables=_tables(directory, manifest, program),
        params=_params(directory, program),
        consts={**consts, **consts_of(program)},
    )
    compiled = directory / COMPILED if manifest.paths("compiled") else None
    explanation = _explanation(directory, manifest)
    return Loaded(program, weights, compiled, _load_golden(directory, manifest), explanation, manifest)


def verify_files(directory: Path | str, *, progress: Progress | None = None) -> Manifest:
    """Check the size and hash of every file. Errors: ArtifactError that lists all that differ."""
    manifest = read_manifest(directory)
    _check_files(Path(directory), manifest, "full", progress)
    return manifest


def _check_files(directory: Path, manifest: Manifest, check: str, progress: Progress | None) -> None:
    missing = [path for path in (PROGRAM, CONSTS, DENSE) if path not in manifest.files]
    if missing:
        raise _damaged(directory / MANIFEST, "it does not list " + ", ".join(missing))
    wrong = [
        f"{path}: {what}" for path, facts in manifest.files.items() if (what := _wrong_size(directory / path, facts))
    ]
    if not wrong:
        hashed = {p: f for p, f in manifest.files.items() if check == "full" or f.part != "table"}
        wrong = list(_wrong_hashes(directory, hashed, progress))
    if wrong:
        raise _damaged(directory, listed(wrong))


def _wrong_size(path: Path, facts: FileFacts) -> str:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "missing"
    except OSError as e:
        return e.strerror or str(e)
    if not path.is_file():
        return "not a file"
    return "" if size == facts.size else f"{size} bytes, not {facts.size}"


def _wrong_hashes(directory: Path, files: Mapping[str, FileFacts], progress: Progress | None) -> Iterator[str]:
    done, total = 0, sum(f.size for f in files.values())
    for path, facts in files.items():
        digest = hashlib.sha256()
        try:
            for chunk in _read_chunks(directory / path):
                digest.update(chunk.data)
                done += chunk.size
                if progress is not None:
                    progress(path, done, total)
        except OSError as e:
            yield f"{path}: {e.strerror}"
            continue
        if digest.hexdigest() != facts.sha256:
            yield f"{path}: its content does not have its hash"


def _tensor_file(path: Path) -> TensorFile:
    try:
        return TensorFile(path)
    except (OSError, TensorFileError) as e:
        raise _damaged(path, str(e)) from e


def _program(directory: Path, consts: Mapping[str, Const]) -> Program:
    path = directory / PROGRAM
    try:
        return parse_program(_read(path).decode(), consts)
    except (UnicodeDecodeError, TextError) as e:
        raise ArtifactError(
            "the program of the artifact cannot be read",
            where=str(path),
            got=str(e),
            help="load it with the version of colonnade that wrote it, or compile the model again",
        ) from e


def _tables(directory: Path, manifest: Manifest, program: Program) -> dict[str, Array]:
    paths = manifest.paths("table")
    if len(paths) != len(program.tables):
        raise _damaged(directory / MANIFEST, f"{len(paths)} files of tables", f"{len(program.tables)}")
    found: dict[str, Array] = {}
    for path, table in zip(paths, program.tables, strict=True):
        file = _tensor_file(directory / path)
        want = f"{table.name}: {table.dtype}[{table.rows}, {table.embedding_dim}]"
        got = "; ".join(f"{n}: {file.dtype(n)}{list(file.array(n).shape)}" for n in file.names())
        if got != want:
            raise _damaged(directory / path, got, want)
        found[table.name] = file.array(table.name)
    return found


def _params(directory: Path, program: Program) -> dict[str, torch.Tensor]:
    file = _tensor_file(directory / DENSE)
    got = {n: f"{file.dtype(n)}{list(file.array(n).shape)}" for n in file.names()}
    want = {name: f"{dtype}{list(shape)}" for name, dtype, shape in program.params}
    if got != want:
        raise _damaged(directory / DENSE, str(got), str(want))
    return {name: torch.from_numpy(file.array(name)).view(torch_dtype(dtype)) for name, dtype, _ in program.params}


def _load_golden(directory: Path, manifest: Manifest) -> Golden | None:
    if GOLDEN not in manifest.files:
        return None
    rows = _tensor_file(directory / GOLDEN).arrays()
    parts: dict[str, dict[str, Array]] = {"input": {}, "output": {}}
    for name, array in rows.items():
        part, _, key = name.partition(":")
        parts[part][key] = array
    return Golden(parts["input"], parts["output"])


def _explanation(directory: Path, manifest: Manifest) -> Explanation:
    if EXPLANATION not in manifest.files:
        return Explanation()
    path = directory / EXPLANATION
    try:
        return Explanation.from_json(_read(path).decode())
    except (ValueError, KeyError, TypeError) as e:
        raise _damaged(path, str(e), "what `save` wrote") from e


def _compiled_files(directory: Path, loaded: Loaded) -> list[Path]:
    return [directory / path for path in loaded.manifest.paths("compiled")]
