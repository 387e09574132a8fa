"""`colonnade run ARTIFACT INPUT`."""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import typer
from numpy.typing import NDArray

from colonnade.cli.common import (
    Debug,
    GpuTableBudget,
    IdPolicy,
    Json,
    Progress,
    ShowProgress,
    Threads,
    console,
    num_bytes,
    print_json,
    table,
    verb,
)
from colonnade.cli.models import open_executable
from colonnade.errors import FeedError, OptionError
from colonnade.ir.program import Program
from colonnade.testing.timing import human_seconds

Array = NDArray[Any]
FORMATS = (".npz", ".parquet", ".json")


@verb
def run(
    path: Annotated[Path, typer.Argument(help="An artifact, or a SavedModel that is compiled first.")],
    feed: Annotated[Path, typer.Argument(help="The request: .npz, .parquet or .json, values by input name.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the outputs to this .npz.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Run it by this backend.")] = None,
    id_policy: IdPolicy = None,
    threads: Threads = None,
    gpu_table_budget: GpuTableBudget = None,
    json_: Json = False,
    progress: ShowProgress = False,
    debug: Debug = False,
) -> None:
    """Answer one request."""
    if out is not None and out.suffix != ".npz":
        raise OptionError("outputs are written as .npz", got=str(out))
    with Progress(progress) as say:
        executable = open_executable(
            path, say, target=target, id_policy=id_policy, threads=threads, gpu_table_budget=num_bytes(gpu_table_budget)
        )
        request = read_feed(feed, executable.program)
        say("run")
        began = time.perf_counter()
        outputs = {name: np.asarray(value) for name, value in executable(request).items()}
        seconds = time.perf_counter() - began
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_npz(out, {name: _plain(value) for name, value in outputs.items()})
    if json_:
        shown = {"dtypes": {n: str(v.dtype) for n, v in outputs.items()}, "seconds": seconds, "out": out and str(out)}
        print_json({"outputs": outputs if out is None else {n: list(v.shape) for n, v in outputs.items()}} | shown)
        return
    rows = [(name, f"{value.dtype}{list(value.shape)}", *_summary(value)) for name, value in outputs.items()]
    console().print(table("", ("output", "type", "first values", "min", "mean", "max", "NaN"), rows))
    typer.echo(f"{human_seconds(seconds)}" + (f", written to {out}" if out is not None else ""))


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Like `np.savez`, which takes no array named `file`."""
    target = path if path.suffix == ".npz" else path.with_name(f"{path.name}.npz")
    with zipfile.ZipFile(target, "w") as stored:
        for name, array in arrays.items():
            with stored.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _plain(value: Array) -> Array:
    return value.astype("S") if value.dtype == object else value


def _summary(value: Array) -> tuple[str, ...]:
    first = ", ".join(f"{v:.6g}" if isinstance(v, np.floating) else str(v) for v in value.reshape(-1)[:4])
    if value.dtype.kind not in "fiu" or not value.size:
        return (first, "", "", "", "")
    known = value[~np.isnan(value)] if value.dtype.kind == "f" else value
    if not known.size:
        return (first, "", "", "", str(value.size))
    return (first, *(f"{f(known):.6g}" for f in (np.min, np.mean, np.max)), str(value.size - known.size))


def read_feed(path: Path, program: Program) -> Any:
    """The request in a file. Errors: FeedError for a file that does not hold one."""
    if path.suffix not in FORMATS:
        raise FeedError("a request of unknown format", where=str(path), want=", ".join(FORMATS))
    if not path.is_file():
        raise FeedError("no such file", where=str(path))
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        if path.suffix == ".json":
            return _from_json(json.loads(path.read_text(encoding="utf-8")), program, str(path))
    except RecursionError as error:
        raise FeedError("the request cannot be read", where=str(path), got="lists in lists without end") from error
    except (ValueError, pa.ArrowException) as error:
        raise FeedError("the request cannot be read", where=str(path), got=str(error).splitlines()[0]) from error
    return read_npz(path)


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays in a file. Errors: FeedError for one that is damaged or holds objects."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        objects = "Object arrays" in str(error)
        raise FeedError(
            "the request cannot be read",
            where=str(path),
            got=str(error).partition("\n")[0],
            help="strings in .npz are arrays of bytes (dtype S), for objects are not read" if objects else "",
        ) from error


def _from_json(value: Any, program: Program, where: str) -> dict[str, Any]:
    """Columns by name, or a list of rows."""
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        names = dict.fromkeys(name for row in value for name in row)
        lacking = [f"row {i}: no {n!r}" for i, row in enumerate(value) for n in names if n not in row]
        if lacking:
            raise FeedError("rows without a value", where=where, got="\n".join(lacking[:20]))
        value = {name: [row[name] for row in value] for name in names}
    if not isinstance(value, Mapping):
        raise FeedError("a request is an object of columns, or a list of rows", where=where, got=type(value).__name__)
    ranks = {item.name: item.shape for item in program.signature}
    return {name: _nested(column, ranks.get(name, ())) for name, column in value.items()}


def _nested(column: Any, shape: tuple[Any, ...]) -> Any:
    """A flat list as rows of one value, where the input has dims of 1 behind the batch."""
    flat = isinstance(column, list) and not any(isinstance(v, list) for v in column)
    if flat and len(shape) > 1 and all(d == 1 for d in shape[1:]):
        for _ in shape[1:]:
            column = [[v] for v in column]
    return column
