"""Loads an artifact: checks its files, parses the program, maps the tables."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
import torch

from colonnade.artifact.content import (
    COMPILED,
    CONSTS,
    DENSE,
    EXPLANATION,
    GOLDEN,
    IDENTITY,
    PROGRAM,
    Golden,
    Progress,
    read_chunks,
)
from colonnade.artifact.manifest import MANIFEST, FileFacts, Manifest, damaged, read_file, read_manifest
from colonnade.core import quantize
from colonnade.core.consts import Const
from colonnade.core.identity import identity
from colonnade.core.tensor_file import TensorFile, TensorFileError
from colonnade.errors import ArtifactError, GraphError, TextError, listed, told
from colonnade.ir.check_program import check as check_program
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights
from colonnade.ir.table import Table
from colonnade.ir.text import consts_of, parse_program
from colonnade.ops.op import torch_dtype

Array = npt.NDArray[Any]
Read = TypeVar("Read")

CHECKS = ("fast", "full")


@dataclass(frozen=True)
class Loaded:
    """An artifact in memory. Facts: tables are views of memory-mapped files, never to be written to."""

    program: Program
    weights: Weights
    compiled_dir: Path | None
    golden: Golden | None
    explanation: Explanation
    manifest: Manifest


def load(directory: Path | str, *, check: str = "fast", progress: Progress | None = None) -> Loaded:
    """Load an artifact; tables are memory-mapped.

    check: `fast` checks versions, the sizes of all files, and the hashes of all but the tables; `full` those too.
    Errors: ArtifactError that lists every damaged or missing file.
    """
    if check not in CHECKS:
        raise ArtifactError("no such check", got=check, want=", ".join(CHECKS))
    directory = Path(directory)
    with told(ArtifactError, "the artifact cannot be read", directory):
        return _in_place(directory, lambda: _loaded(directory, check, progress))


def _loaded(directory: Path, check: str, progress: Progress | None) -> Loaded:
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
    directory = Path(directory)

    def checked() -> Manifest:
        manifest = read_manifest(directory)
        _check_files(directory, manifest, "full", progress)
        return manifest

    with told(ArtifactError, "the artifact cannot be read", directory):
        return _in_place(directory, checked)


def _in_place(directory: Path, read: Callable[[], Read]) -> Read:
    """What is read of a directory that stays the same meanwhile: once more where another took its place.

    Errors: ArtifactError where that happened again; else its files would be of two artifacts.
    """
    for is_last in (False, True):
        before = _identity_of(directory)
        try:
            found = read()
        except (ArtifactError, OSError):
            if is_last or _identity_of(directory) == before:
                raise
            continue
        if _identity_of(directory) == before:
            return found
    raise ArtifactError(
        "the artifact was replaced while it was read, and again when it was read once more",
        where=str(directory),
        help="load it again; save less often, or to another directory and rename",
    )


def _identity_of(directory: Path) -> tuple[int, int, int] | None:
    """Of the directory at the path, not of the path; None where there is none."""
    try:
        found = directory.stat()
    except (OSError, ValueError):  # a name with NUL is no path
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _check_files(directory: Path, manifest: Manifest, check: str, progress: Progress | None) -> None:
    missing = [path for path in (PROGRAM, CONSTS, DENSE) if path not in manifest.files]
    if missing:
        raise damaged(directory / MANIFEST, "it does not list " + ", ".join(missing))
    wrong = [
        f"{path}: {what}" for path, facts in manifest.files.items() if (what := _wrong_size(directory / path, facts))
    ]
    if not wrong:
        hashed = {p: f for p, f in manifest.files.items() if check == "full" or f.part != "table"}
        wrong = list(_wrong_hashes(directory, hashed, progress))
    if wrong:
        raise damaged(directory, listed(wrong))


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
            for chunk in read_chunks(directory / path):
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
        raise damaged(path, str(e)) from e


def _program(directory: Path, consts: Mapping[str, Const]) -> Program:
    path = directory / PROGRAM
    try:
        program = parse_program(read_file(path).decode(), consts)
        check_program(program)
        return program
    except (UnicodeDecodeError, TextError, GraphError) as e:
        raise ArtifactError(
            "the program of the artifact cannot be read",
            where=str(path),
            got=str(e),
            help="load it with the version of colonnade that wrote it, or compile the model again",
        ) from e


def _tables(directory: Path, manifest: Manifest, program: Program) -> dict[str, Array]:
    paths = manifest.paths("table")
    if len(paths) != len(program.tables):
        raise damaged(directory / MANIFEST, f"{len(paths)} files of tables", f"{len(program.tables)}")
    found: dict[str, Array] = {}
    for path, table in zip(paths, program.tables, strict=True):
        file = _tensor_file(directory / path)
        if file.names() == [f"{table.name}{IDENTITY}"]:
            found[table.name] = _identity(file, table, directory / path)
            continue
        want = f"{table.name}: {quantize.file_dtype(table.dtype)}{list(table.stored_shape)}"
        got = "; ".join(f"{n}: {file.dtype(n)}{list(file.array(n).shape)}" for n in file.names())
        if got != want:
            raise damaged(directory / path, got, want)
        found[table.name] = file.array(table.name)
    return found


def _identity(file: TensorFile, table: Table, path: Path) -> Array:
    (name,) = file.names()
    sizes = file.array(name).tolist()
    if table.dtype != "float32" or [(size, size) for size in sizes] != [table.stored_shape]:
        raise damaged(path, f"an identity matrix of {sizes} rows", f"{table.dtype}{list(table.stored_shape)}")
    return identity(sizes[0])


def _params(directory: Path, program: Program) -> dict[str, torch.Tensor]:
    file = _tensor_file(directory / DENSE)
    got = {n: f"{file.dtype(n)}{list(file.array(n).shape)}" for n in file.names()}
    want = {name: f"{dtype}{list(shape)}" for name, dtype, shape in program.params}
    if got != want:
        raise damaged(directory / DENSE, str(got), str(want))
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
        return Explanation.from_json(read_file(path).decode())
    except (ValueError, KeyError, TypeError) as e:
        raise damaged(path, str(e), "what `save` wrote") from e
