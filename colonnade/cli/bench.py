"""`colonnade bench ARTIFACT --against MODEL`: both side by side, checked first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade import compiler
from colonnade.cli.common import (
    MISMATCH,
    Debug,
    Json,
    Progress,
    Seed,
    ShowProgress,
    Signature,
    Tags,
    console,
    names,
    numbers,
    print_json,
    table,
    verb,
    write_text,
)
from colonnade.cli.models import open_executable, tensorflow_side
from colonnade.cli.verify import show
from colonnade.errors import OptionError
from colonnade.executable import Executable
from colonnade.testing.bench import HEADERS, Bench, Measured, Refused, append, report, table_rows
from colonnade.testing.recording import recorded
from colonnade.testing.sides import ColonnadeSide
from colonnade.testing.verify import verify


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
    signature: Signature = None,
    tags: Tags = None,
    seed: Seed = 0,
    json_: Json = False,
    progress: ShowProgress = False,
    debug: Debug = False,
) -> None:
    """Time the model, beside TensorFlow where its SavedModel is given; no number where the check is red."""
    with Progress(progress) as say:
        batches = numbers(batch, "batch sizes")
        if min(batches) < 1:
            raise OptionError("a batch of no rows has no time worth a number", got=batch, want="at least 1")
        executable = open_executable(path, say, target=target, signature=signature, threads=threads)
        backend = compiler.backend(executable.report().backend)
        case = name or path.resolve().name
        oracle = checker = checked = None
        if against is not None:
            say(f"load {against} in TensorFlow")
            oracle = tensorflow_side(against, executable, signature, names(tags), threads, optimize=True)
            checker = tensorflow_side(against, executable, signature, names(tags), threads)
        else:
            checked = _recorded_check(path, executable, ColonnadeSide(executable, backend))
        made = Bench(case, executable, backend, oracle, threads, checked, checker)
        found = list(made.run(batches, runs, seed=seed, progress=say))
        made.close()
    measured = [m for m in found if isinstance(m, Measured)]
    refused = [m for m in found if isinstance(m, Refused)]
    written = append(out_dir, measured)
    page = out_dir / f"{case}.html"
    write_text(page, report(f"{case}: Colonnade and TensorFlow", measured, refused))
    if json_:
        rows = [m.row() for m in measured]
        red = [{"case": r.case, "batch": r.batch, "verdict": r.verdict.as_dict(worst=3)} for r in refused]
        print_json({"measured": rows, "refused": red, "results": str(written or ""), "report": str(page)})
    else:
        _show(measured, refused, written, page)
    if refused:
        raise typer.Exit(MISMATCH)


def _recorded_check(path: Path, executable: Executable, ours: ColonnadeSide) -> dict[str, object]:
    """The artifact's golden rows. Errors: OptionError where there are none, or where they are not met."""
    golden = executable.golden
    if golden is None:
        raise OptionError(
            "nothing to check against, so nothing is timed",
            where=str(path),
            help="give --against MODEL, or compile with --record 32",
        )
    request, oracle = recorded(executable.program, golden)
    verdict = verify(ours, oracle, executable.program, executable.weights, [request])
    if not verdict.ok:
        raise OptionError("the recorded rows are not met, so nothing is timed", where=str(path), help="run verify")
    return {"oracle": verdict.oracle, "rows": verdict.rows, "ok": True}


def _show(measured: list[Measured], refused: list[Refused], written: Path | None, page: Path) -> None:
    out = console()
    if measured:
        out.print(table("", HEADERS, table_rows(measured), numbers=(2, 4, 5, 6, 7, 8)))
        one = measured[0]
        bandwidth = one.floor["bytes_per_second"] / 1e9
        out.print(
            f"{one.machine['cpu']}, {one.threads} threads a side, commit {one.commit or 'unknown'}. "
            f"floor: inputs, distinct table rows and output at {bandwidth:.1f} GB/s of copying, no computation",
            markup=False,
        )
        out.print(f"results in {written}, report in {page}", markup=False)
    for red in refused:
        out.print(f"{red.case}, batch {red.batch}: no number, for the check is red", markup=False)
        show(out, red.verdict)
