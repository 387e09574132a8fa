"""`python -m benchmarks [NAME ...] [--quick]`: run cases and append their rows to the results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.case import Case, run
from benchmarks.cases import CASES, DEFAULT
from colonnade.cli.common import ERROR, MISMATCH, Progress, console, table, write_text
from colonnade.errors import ColonnadeError, OptionError
from colonnade.testing.bench import HEADERS, Measured, Refused, append, report, table_rows
from colonnade.testing.tensorflow import quiet_tensorflow

BATCHES = (1, 32, 256, 1024)
"""Of a model that a caller names."""
RESULTS = Path(__file__).resolve().parent / "results"


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; without any, those that fit most machines.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small cases, small batches, few runs; nothing is stored.")
    ] = False,
    threads: Annotated[int, typer.Option("--threads", "-t", min=1, help="Threads of each side.")] = 2,
    runs: Annotated[int | None, typer.Option("--runs", min=1, help="Runs of each side.")] = None,
    models: Annotated[
        list[str] | None, typer.Option("--model", help="NAME=FOLDER: a SavedModel elsewhere, as one more case.")
    ] = None,
    out_dir: Annotated[Path, typer.Option("--out-dir", help="Where rows and the report go.")] = RESULTS,
) -> None:
    """Time cases beside TensorFlow, each checked first; append a row a batch size to the results."""
    quiet_tensorflow()
    try:
        _run(names, quick, threads, runs, out_dir, [_given(text) for text in models or ()])
    except ColonnadeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(ERROR) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(130) from None


def _given(text: str) -> Case:
    """The case of a SavedModel that a caller names."""
    name, _, folder = text.partition("=")
    if not name or not Path(folder, "saved_model.pb").is_file():
        raise OptionError("no SavedModel there", got=text, want="NAME=FOLDER, with saved_model.pb in the folder")
    return Case(name, name, BATCHES, path=Path(folder))


def _run(
    names: list[str] | None, quick: bool, threads: int, runs: int | None, out_dir: Path, given: list[Case]
) -> None:
    unknown = [name for name in names or () if name not in CASES]
    if unknown:
        raise OptionError("no such case", got=", ".join(unknown), want=", ".join(CASES))
    usual = tuple(name for name, case in CASES.items() if case.quick) if quick else DEFAULT
    chosen = [*given, *(CASES[name] for name in names or (() if given else usual))]
    measured: list[Measured] = []
    refused: list[Refused] = []
    with Progress(True) as say:
        for found in run(chosen, threads=threads, runs=runs, quick=quick, progress=say):
            if isinstance(found, Refused):
                refused.append(found)
                continue
            measured.append(found)
            if not quick:
                append(out_dir, [found])
    out = console()
    out.print(table("", HEADERS, table_rows(measured), numbers=(2, 4, 5, 6, 7, 8)))
    if not quick:
        write_text(out_dir / "report.html", report("Colonnade beside TensorFlow", measured, refused))
        out.print(f"rows and report.html in {out_dir}", markup=False)
    for red in refused:
        out.print(f"{red.case}, batch {red.batch}: no number, for the check is red", markup=False)
    if refused:
        raise typer.Exit(MISMATCH)


if __name__ == "__main__":
    typer.run(main)
