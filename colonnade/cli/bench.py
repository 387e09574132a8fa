"""`colonnade bench ARTIFACT --against MODEL`: both side by side, checked first; `--target gpu`: on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade import compiler
from colonnade.cli.common import (
    MISMATCH,
    Debug,
    GpuTableBudget,
    Json,
    Progress,
    Seed,
    ShowProgress,
    Signature,
    Tags,
    console,
    names,
    num_bytes,
    numbers,
    print_json,
    table,
    verb,
    write_text,
)
from colonnade.cli.models import is_artifact, open_executable, tensorflow_side
from colonnade.cli.verify import show
from colonnade.errors import OptionError
from colonnade.executable import Executable
from colonnade.ir.program import Program
from colonnade.testing import html, picture
from colonnade.testing.bench import HEADERS, Bench, Measured, Refused, append, groups, report, table_rows
from colonnade.testing.recording import recorded
from colonnade.testing.requests import fixed_rows
from colonnade.testing.rows import Row
from colonnade.testing.sides import ColonnadeSide, TensorFlowSide
from colonnade.testing.verify import verify

GPU = "gpu"


@verb
def bench(
    path: Annotated[Path, typer.Argument(help="An artifact, or a SavedModel that is compiled first.")],
    against: Annotated[
        Path | None, typer.Option("--against", help="The SavedModel, run by TensorFlow beside it.")
    ] = None,
    batch: Annotated[str, typer.Option("--batch", help="Batch sizes, separated by commas.")] = "1,32,256",
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs of each side.")] = 30,
    threads: Annotated[int, typer.Option("--threads", "-t", min=1, help="Threads of each side.")] = 2,
    out_dir: Annotated[Path, typer.Option("--out-dir", help="Where results and the report go.")] = Path(
        "benchmarks/results"
    ),
    name: Annotated[str | None, typer.Option("--name", help="The case's name in the results.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Run it by this backend.")] = None,
    gpu_table_budget: GpuTableBudget = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Draw the bars to this file (needs colonnade[report]).")
    ] = None,
    signature: Signature = None,
    tags: Tags = None,
    seed: Seed = 0,
    json_: Json = False,
    progress: ShowProgress = False,
    debug: Debug = False,
) -> None:
    """Time the model, beside TensorFlow where its SavedModel is given; no number where the check is red."""
    if png is not None:
        picture.library()  # before minutes are spent
    with Progress(progress) as say:
        batches = numbers(batch, "batch sizes")
        if min(batches) < 1:
            raise OptionError("a batch of no rows has no time worth a number", got=batch, want="at least 1")
        case = name or path.resolve().name
        budget = num_bytes(gpu_table_budget)
        asked = _Asked(path, case, against, signature, names(tags), threads, out_dir, png, budget)
        run = _on_gpu if target == GPU else _on_host
        found = run(asked, target, batches, runs, seed, say)
    if json_:
        red = [{"case": r.case, "batch": r.batch, "verdict": r.verdict.as_dict(worst=3)} for r in found.refused]
        print_json({"measured": found.rows, "refused": red, "results": found.results, "report": str(found.page)})
    else:
        _show(found)
    if found.refused:
        raise typer.Exit(MISMATCH)


@dataclass(frozen=True)
class _Asked:
    """What is to be timed, and where it goes."""

    path: Path
    case: str
    against: Path | None
    signature: str | None
    tags: Sequence[str] | None
    threads: int
    out_dir: Path
    png: Path | None
    gpu_table_budget: int | None

    def opened(self, say: Progress, target: str | None, gpu_table_budget: int | None = None) -> Executable:
        """The executable."""
        return open_executable(
            self.path,
            say,
            target=target,
            signature=self.signature,
            tags=None if is_artifact(self.path) else self.tags,  # those of --against
            threads=self.threads,
            gpu_table_budget=gpu_table_budget,
        )

    def oracles(self, say: Progress, executable: Executable) -> tuple[TensorFlowSide | None, TensorFlowSide | None]:
        """TensorFlow to time, and to check against."""
        if self.against is None:
            return None, None
        say(f"load {self.against} in TensorFlow")
        first, second = (
            tensorflow_side(self.against, executable, self.signature, self.tags, self.threads, optimize=optimize)
            for optimize in (True, False)
        )
        return first, second

    def drawn(self, bars: Sequence[html.Group], note: str) -> None:
        """The picture, where one is wanted."""
        if self.png is not None:
            picture.draw(self.png, self.case, bars, note)


@dataclass(frozen=True)
class _Found:
    """What came of it: JSON rows, what was refused, files, and a table with a line below."""

    rows: list[dict[str, Any]]
    refused: list[Refused]
    results: str
    page: Path
    headers: Sequence[str]
    lines: Sequence[Sequence[str]]
    numbers: Sequence[int]
    note: str


def _on_host(asked: _Asked, target: str | None, batches: Sequence[int], runs: int, seed: int, say: Progress) -> _Found:
    executable = asked.opened(say, target, asked.gpu_table_budget)
    _check_batches(executable.program, batches)
    backend = compiler.backend(executable.report().backend)
    oracle, checker = asked.oracles(say, executable)
    checked = None
    if oracle is None:
        checked = _recorded_check(asked.path, executable, ColonnadeSide(executable, backend))
    made = Bench(asked.case, executable, backend, oracle, asked.threads, checked, checker)
    found = list(made.run(batches, runs, seed=seed, progress=say))
    made.close()
    measured = [m for m in found if isinstance(m, Measured)]
    refused = [m for m in found if isinstance(m, Refused)]
    written = append(asked.out_dir, measured)
    page = asked.out_dir / f"{asked.case}.html"
    write_text(page, report(f"{asked.case}: Colonnade and TensorFlow", measured, refused))
    note = _note(measured[0]) if measured else ""
    asked.drawn(groups(measured), note)
    rows, lines = [m.row() for m in measured], table_rows(measured)
    return _Found(rows, refused, str(written or ""), page, HEADERS, lines, (2, 4, 5, 6, 7, 8), note)


def _on_gpu(asked: _Asked, target: str | None, batches: Sequence[int], runs: int, seed: int, say: Progress) -> _Found:
    backend = compiler.backend(
        GPU, gpu_table_budget=asked.gpu_table_budget
    )  # before anything: it says what is missing for it
    from colonnade.testing import bench_gpu, report_gpu

    opened = asked.opened(say, "reference")
    _check_batches(opened.program, batches)
    oracle, checker = asked.oracles(say, opened)
    say(f"compile {len(opened.program.columns)} columns for {GPU}")
    made = bench_gpu.DeviceBench(asked.case, opened.program, opened.weights, backend, oracle=oracle, checker=checker)
    if oracle is None:
        made.checked = _recorded_check(asked.path, opened, made.side, bench_gpu.CALLS)
    found = list(made.run(batches, runs, seed=seed, progress=say))
    made.close()
    measured = [m for m in found if isinstance(m, Row)]
    refused = [m for m in found if isinstance(m, Refused)]
    written = append(asked.out_dir, measured, f"{GPU}_")
    page = asked.out_dir / f"{GPU}_{asked.case}.html"
    write_text(page, report_gpu.report(f"{asked.case} on a GPU", measured, refused))
    note = report_gpu.place(measured[0]) if measured else ""
    asked.drawn(report_gpu.groups(measured), note)
    facts = [(*head, name, "", value, "", "") for *head, name, value in report_gpu.fact_rows(measured)]
    rows, lines = [m.row() for m in measured], [*report_gpu.table_rows(measured), *facts]
    return _Found(rows, refused, str(written or ""), page, report_gpu.HEADERS, lines, report_gpu.NUMBERS, note)


def _check_batches(program: Program, batches: Sequence[int]) -> None:
    """Errors: OptionError where the program has requests of another number of rows only."""
    fixed = fixed_rows(program)
    if fixed is not None and set(batches) != {fixed}:
        got = ", ".join(map(str, batches))
        raise OptionError(
            "every request of the model has as many rows", got=got, want=str(fixed), help=f"--batch {fixed}"
        )


def _recorded_check(path: Path, executable: Executable, ours: ColonnadeSide, times: int = 1) -> dict[str, object]:
    """The artifact's golden rows, answered `times` times.

    Errors: OptionError where there are none, or where they are not met.
    """
    golden = executable.golden
    if golden is None:
        raise OptionError(
            "nothing to check against, so nothing is timed",
            where=str(path),
            help="give --against MODEL, or compile with --record 32",
        )
    request, oracle = recorded(executable.program, golden)
    verdict = verify(ours, oracle, executable.program, executable.weights, [request] * times)
    if not verdict.ok:
        raise OptionError("the recorded rows are not met, so nothing is timed", where=str(path), help="run verify")
    return {"oracle": verdict.oracle, "rows": verdict.rows, "ok": True}


def _note(one: Measured) -> str:
    bandwidth = one.floor["bytes_per_second"] / 1e9
    return (
        f"{one.machine['cpu']}, {one.threads} threads a side, commit {one.commit or 'unknown'}. "
        f"floor: inputs, distinct table rows and output at {bandwidth:.1f} GB/s of copying, no computation"
    )


def _show(found: _Found) -> None:
    out = console()
    if found.rows:
        out.print(table("", found.headers, found.lines, numbers=found.numbers))
        out.print(found.note, markup=False)
        out.print(f"results in {found.results}, report in {found.page}", markup=False)
    for red in found.refused:
        out.print(f"{red.case}, batch {red.batch}: no number, for the check is red", markup=False)
        show(out, red.verdict)
