"""What the files of an artifact hold: made of a program and its weights, checked, and given in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.artifact.manifest import inside, what_is
from colonnade.core import quantize, tensor_file
from colonnade.core.identity import is_identity
from colonnade.core.tensor_file import Tensor, TensorFileError
from colonnade.errors import ArtifactError, listed
from colonnade.ir.explanation import Explanation
from colonnade.ir.program import Program, Weights
from colonnade.ir.text import by_digest, consts_of, print_program

Array = npt.NDArray[Any]
Progress = Callable[[str, int, int], None]
"""Called with the file, and how many of how many bytes (of all files) are done."""

PROGRAM, CONSTS, DENSE = "program.txt", "consts.safetensors", "dense.safetensors"
GOLDEN, COMPILED = "golden/golden.safetensors", "compiled"
EXPLANATION = "explanation.json"
IDENTITY = " (identity)"
"""Behind the name of a table that is an identity matrix: its file holds the number of rows alone."""


@dataclass(frozen=True)
class Golden:
    """A recorded request and its answer: name -> array (strings: object arrays of bytes)."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


@dataclass(frozen=True)
class Content:
    """A file to write: its bytes in pieces, as often as they are asked for."""

    path: str
    part: str
    size: int
    chunks: Callable[[], Iterable[Array]]


def contents_of(
    program: Program,
    weights: Weights,
    compiled: Mapping[str, Path],
    golden: Golden | None,
    explanation: Explanation,
) -> list[Content]:
    """The files of an artifact but the manifest. Errors: ArtifactError that lists all that does not fit."""
    text = print_program(program).encode()
    consts = {d: c for d, c in {**weights.consts, **consts_of(program)}.items() if by_digest(c)}
    found = [of_bytes(PROGRAM, "program", text), _tensors(CONSTS, "consts", {d: c.array for d, c in consts.items()})]
    found.append(of_bytes(EXPLANATION, "explanation", explanation.to_json().encode()))
    tables, params = _checked(program, weights)
    found.append(_tensors(DENSE, "dense", params))
    for index, (name, item) in enumerate(tables.items()):
        rows = {f"{name}{IDENTITY}": np.array([len(item.array)])} if is_identity(item.array) else {name: item}
        found.append(_tensors(f"tables/{index:04d}-{safe_name(name)}.safetensors", "table", rows))
    found.extend(_file(f"{COMPILED}/{inside(name)}", "compiled", path) for name, path in sorted(compiled.items()))
    if golden is not None:
        found.append(golden_rows(golden))
    return found


def safe_name(name: str) -> str:
    """A name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:80]


def of_bytes(path: str, part: str, data: bytes) -> Content:
    """A file of these bytes."""
    return Content(path, part, len(data), lambda: [np.frombuffer(data, np.uint8)])


def _tensors(path: str, part: str, arrays: Mapping[str, Array | Tensor]) -> Content:
    try:
        tensors, metadata = tensor_file.with_strings(arrays)
    except TensorFileError as e:
        raise ArtifactError("an array cannot be stored", where=path, got=str(e)) from e
    size = tensor_file.size(tensors, metadata)
    return Content(path, part, size, lambda: tensor_file.chunks(tensors, metadata))


def _file(path: str, part: str, source: Path) -> Content:
    if not source.is_file():
        raise ArtifactError("a file to save is missing", where=str(source), got=what_is(source))
    return Content(path, part, source.stat().st_size, lambda: read_chunks(source))


def golden_rows(golden: Golden) -> Content:
    """The file of recorded rows."""
    rows = {f"input:{k}": np.asarray(v) for k, v in golden.inputs.items()}
    rows |= {f"output:{k}": np.asarray(v) for k, v in golden.outputs.items()}
    return _tensors(GOLDEN, "golden", rows)


def read_chunks(path: Path) -> Iterator[Array]:
    """The bytes of a file, piece by piece."""
    with path.open("rb") as file:
        while data := file.read(tensor_file.CHUNK):
            yield np.frombuffer(data, np.uint8)


def _checked(program: Program, weights: Weights) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Tables and parameters as they are stored. Errors: ArtifactError that lists all that does not fit."""
    wrong = weights.misfits(program)
    if wrong:
        raise ArtifactError("the weights do not fit the program", got=listed(wrong))
    tables = {
        t.name: _stored(f"table {t.name!r}", weights.tables[t.name], quantize.file_dtype(t.dtype))
        for t in program.tables
    }
    params = {
        name: _stored(f"parameter {name!r}", _array_of(weights.params[name]), dtype)
        for name, dtype, _ in program.params
    }
    return tables, params


def _stored(what: str, array: Array, dtype: str) -> Tensor:
    try:
        return tensor_file.tensor(array, dtype)
    except TensorFileError as e:
        raise ArtifactError("an array cannot be stored", where=what, got=str(e)) from e


def _array_of(value: torch.Tensor) -> Array:
    value = value.detach().cpu().contiguous()
    return value.view(torch.uint16).numpy() if value.dtype == torch.bfloat16 else value.numpy()
