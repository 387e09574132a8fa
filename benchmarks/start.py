"""`python -m benchmarks.start [MODEL ...]`: what it takes to begin, in processes of their own.

Compile a SavedModel and save it; load the artifact and answer the first request, with the caches of this machine and
with none, as in a container that has only the artifact.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.start_process import COMPILE, LOAD
from colonnade.cli.common import ERROR, Progress, console, table
from colonnade.errors import ColonnadeError, OptionError
from colonnade.testing import machine
from colonnade.testing.models import cached
from colonnade.testing.tensorflow import quiet_tensorflow

RESULTS = Path(__file__).resolve().parent / "results"
FILE = "start.jsonl"
MODELS = ("micro1000", "E_full_cols", "E")
HEADERS = ("model", "import", "compile", "anonymous memory", "save", "load", "again", "first answer", "without caches")


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Test models; without any: " + ", ".join(MODELS))] = None,
    out_dir: Annotated[Path, typer.Option("--out-dir", help="Where rows go.")] = RESULTS,
) -> None:
    """Measure each model, append a row each to the results, print a table."""
    quiet_tensorflow()
    rows = []
    try:
        with Progress(True) as say:
            for name in models or MODELS:
                say(f"{name}: make the model")
                folder = cached(name)
                rows.append(measured(name, folder, say))
                out_dir.mkdir(parents=True, exist_ok=True)
                with (out_dir / FILE).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    except ColonnadeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(ERROR) from None
    console().print(table("", HEADERS, [cells(row) for row in rows], numbers=tuple(range(1, len(HEADERS)))))


def measured(name: str, folder: Path, say: Progress) -> dict[str, Any]:
    """One row. Units: seconds, bytes."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        artifact = Path(place) / "artifact"
        say(f"{name}: compile and save")
        compiled = _in_a_process(COMPILE, folder, artifact)
        say(f"{name}: load")
        loaded = _in_a_process(LOAD, artifact)
        say(f"{name}: load without caches")
        clean = _in_a_process(LOAD, artifact, {"COLONNADE_CACHE_DIR": str(Path(place) / "cache")})
    return {
        "case": name,
        COMPILE: compiled,
        LOAD: loaded,
        "load without caches": clean,
        "commit": machine.commit(),
        "date": machine.now(),
        "machine": machine.machine(),
    }


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A row of the table."""
    compiled, loaded, clean = row[COMPILE], row[LOAD], row["load without caches"]
    seconds = [compiled["import"], compiled["compile"]]
    more = [compiled["save"], loaded["load"], loaded["load again"], loaded["answer"], clean["load"] + clean["answer"]]
    return (
        row["case"],
        *(f"{s:.1f} s" for s in seconds),
        f"{compiled['anonymous bytes'] / 1e6:.0f} MB",
        *(f"{s:.2f} s" for s in more),
    )


def _in_a_process(what: str, *paths: object) -> dict[str, float]:
    *given, last = paths
    extra: Mapping[str, str] = last if isinstance(last, dict) else {}
    words = [str(p) for p in (given if extra else paths)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.start_process", what, *words],
        env=os.environ | extra,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OptionError("a measured process failed", where=f"{what} {' '.join(words)}", got=f"exit {done.returncode}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    typer.run(main)
