"""`python -m benchmarks.gpu CASE ... --out DIR`: run cases, append their rows, write a page, print a table.

Several cases run in a process each, so that one that breaks the device takes no other with it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.gpu import corun, kernels, micro, ragged, step, throughput, whole
from benchmarks.gpu.rows import Refused, append, here, machine, read, report, table_rows, text_table
from benchmarks.gpu.setting import Case, Setting
from colonnade.errors import ColonnadeError, OptionError
from colonnade.testing.workloads import WORKLOADS

CASES: dict[str, Case] = {
    "micro": micro.columns_case,
    "compile": micro.compile_case,
    "ragged": ragged.case,
    "step": step.case,
    "E": whole.case("E"),
    "F": whole.case("F"),
    "throughput": throughput.case,
    "kernels": kernels.case,
    "corun": corun.case,
}
PARTS: dict[str, Case] = {f"{step.CASE}-{name}": step.case_of(name) for name in WORKLOADS}
"""Parts of a case, each run where it is named."""
WITHOUT_CPU = ("micro", "compile", "ragged", "step", *PARTS)
"""Cases that compare with no answer of the cpu backend; they run while its engine is compiled."""
WARM = "from colonnade.cli import main; main()"
RESULTS = Path(__file__).resolve().parents[1] / "results"
PAGE = "gpu_report.html"
TITLE = "Colonnade on a GPU"
RED, BROKEN = 3, 2


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; all without any.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Where rows and the page go.")] = RESULTS,
    dry: Annotated[bool, typer.Option("--dry", help="Tiny sizes, the cpu backend in place of the gpu one.")] = False,
    batch: Annotated[list[int] | None, typer.Option("--batch", min=1, help="In place of a case's own sizes.")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Timed runs of each side.")] = 30,
    seconds: Annotated[float, typer.Option("--seconds", min=0.01, help="Of each closed loop.")] = 1.5,
    threads: Annotated[
        int | None, typer.Option("--threads", min=0, help="Of the cpu backend: all cores, or none with 0.")
    ] = None,
    limit: Annotated[float, typer.Option("--limit", help="Seconds that a case may take among several.")] = 150.0,
    commit: Annotated[str, typer.Option("--commit", help="Of the source, where there is no repository.")] = "",
) -> None:
    """Run cases; exit status 3 where a check is red, 2 where a case broke."""
    chosen = names or list(CASES)
    try:
        unknown = [name for name in chosen if name not in CASES | PARTS]
        if unknown:
            raise OptionError("no such case", got=", ".join(unknown), want=", ".join(CASES | PARTS))
        if not dry and not torch.cuda.is_available():
            raise OptionError("no CUDA device", help="--dry runs the cases at a tiny size without one")
    except OptionError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(BROKEN) from None
    threads = threads if threads is not None else 1 if dry else machine()["cores"]
    if len(chosen) == 1:
        setting = Setting(dry, tuple(batch or ()), runs, seconds, threads, _say)
        raise typer.Exit(_run(chosen[0], setting, out, commit))
    flags = ["--out", str(out), "--runs", str(runs), "--seconds", str(seconds), "--threads", str(threads)]
    flags += ["--commit", commit, *(["--dry"] if dry else []), *(f"--batch={b}" for b in batch or ())]
    raise typer.Exit(_each(chosen, flags, limit))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _run(name: str, setting: Setting, out: Path, commit: str) -> int:
    """One case in this process; its rows are stored as they come."""
    status, rows = 0, []
    try:
        for found in (CASES | PARTS)[name](setting):
            if isinstance(found, Refused):
                print(found, flush=True)
                status = RED
                continue
            append(out, found, commit)
            rows.append(found.placed(here(), commit).row())
    except ColonnadeError as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        status = BROKEN
    print(text_table(table_rows(rows)))
    (out / PAGE).parent.mkdir(parents=True, exist_ok=True)
    (out / PAGE).write_text(report(TITLE, read(out)), encoding="utf-8")
    return status


def _each(names: Sequence[str], flags: Sequence[str], limit: float) -> int:
    """A process a case, output as it comes; the worst status."""
    worst = 0
    engine = subprocess.Popen([sys.executable, "-c", WARM, "warmup"])
    for name in sorted(names, key=lambda n: n not in WITHOUT_CPU):
        if name not in WITHOUT_CPU:
            engine.wait()
        began = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.gpu", name, *flags]
        try:
            status = subprocess.run(command, timeout=limit, check=False).returncode
        except subprocess.TimeoutExpired:
            status = BROKEN
            print(f"{name}: stopped after {limit:g} s", flush=True)
        print(f"{name}: status {status}, {time.perf_counter() - began:.0f} s", flush=True)
        worst = max(worst, RED if status == RED else BROKEN if status else 0)
    engine.wait()
    return worst


if __name__ == "__main__":
    typer.run(main)
