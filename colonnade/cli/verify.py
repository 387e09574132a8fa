"""`colonnade verify ARTIFACT`: are its answers the source model's?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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
    Threads,
    console,
    names,
    num_bytes,
    numbers,
    print_json,
    table,
    verb,
)
from colonnade.cli.models import is_artifact, open_executable, tensorflow_side
from colonnade.errors import OptionError
from colonnade.executable import Executable
from colonnade.testing.recording import recorded
from colonnade.testing.sides import ColonnadeSide
from colonnade.testing.timing import human_seconds
from colonnade.testing.verify import BATCHES, ROWS, PointResult, RowNote, Verdict, requests_for
from colonnade.testing.verify import verify as compare

SHOWN = 8
MOST_REFUSED = 0.5
"""The share of rows without an oracle from which on a warning says so."""


@verb
def verify(
    path: Annotated[Path, typer.Argument(help="An artifact, or a SavedModel that is compiled first.")],
    against: Annotated[
        Path | None,
        typer.Option("--against", help="The SavedModel, run by TensorFlow. Else: the recorded golden rows."),
    ] = None,
    batch: Annotated[str, typer.Option("--batch", help="Batch sizes, separated by commas.")] = ",".join(
        map(str, BATCHES)
    ),
    rows: Annotated[
        int,
        typer.Option("--rows", min=1, help="Rows of the largest ordinary request; corner rows are as many as corners."),
    ] = ROWS,
    seed: Seed = 0,
    target: Annotated[str | None, typer.Option("--target", help="Run it by this backend.")] = None,
    signature: Signature = None,
    tags: Tags = None,
    threads: Threads = None,
    gpu_table_budget: GpuTableBudget = None,
    json_: Json = False,
    progress: ShowProgress = False,
    debug: Debug = False,
) -> None:
    """Compare the answers with TensorFlow's, or with recorded golden rows (exit 1 on a mismatch)."""
    with Progress(progress) as say:
        batches = numbers(batch, "batch sizes")
        budget = num_bytes(gpu_table_budget)
        executable = open_executable(
            path,
            say,
            target=target,
            signature=signature,
            tags=None if is_artifact(path) else names(tags),  # those of --against
            threads=threads,
            check="full",
            gpu_table_budget=budget,
        )
        backend = compiler.backend(executable.report().backend, gpu_table_budget=budget)
        ours = ColonnadeSide(executable, backend, threads=threads or 1)
        if against is None and not is_artifact(path):
            against = path
        if against is None:
            verdict = _golden(path, executable, ours, say)
        else:
            say(f"load {against} in TensorFlow")
            oracle = tensorflow_side(against, executable, signature, names(tags))
            requests = requests_for(executable.program, batches, rows, seed)
            verdict = compare(ours, oracle, executable.program, executable.weights, requests, progress=say)
            oracle.close()
    if json_:
        print_json(verdict.as_dict())
    else:
        show(console(), verdict)
    if not verdict.ok:
        raise typer.Exit(MISMATCH)


def _golden(path: Path, executable: Executable, ours: ColonnadeSide, say: Progress) -> Verdict:
    golden = executable.golden
    if golden is None:
        raise OptionError(
            "the artifact has no golden rows",
            where=str(path),
            help="verify it with --against MODEL, or compile it with --record 32",
        )
    request, oracle = recorded(executable.program, golden)
    return compare(ours, oracle, executable.program, executable.weights, [request], progress=say)


def show(out: Console, verdict: Verdict) -> None:
    """The verdict as tables."""
    out.print(f"against {verdict.oracle}: {verdict.rows} rows in {len(verdict.requests)} requests")
    titles = {
        "column": "columns: bit-equal where a row pools at most one element",
        "concat": "concat",
        "before": f"before a step (relative tolerance {verdict.rtol:.2g})",
        "output": f"outputs (relative tolerance {verdict.rtol:.2g}; behind a step: equal)",
    }
    for kind, title in titles.items():
        found = verdict.of_kind(kind)
        if found:
            failed = sum(not r.ok for r in found)
            exact = sum(r.ok and not r.differing for r in found)
            title = f"{title}: {len(found)} compared, {exact} bit-equal, {failed} failed"
            head = ("name", "elements", "other bits", "outside", "worst error", "/ allowed", "where", "got", "want")
            out.print(table(title, head, [_row(r) for r in found[:SHOWN]], numbers=(1, 2, 3, 4, 5)))
    if verdict.flips:
        head = ("output", "request", "row", "got", "want", "before", "margin", "allowed", "")
        rows = [
            (
                f.output,
                f.request,
                f.row,
                f.got,
                f.want,
                f"{f.before:.9g}",
                f"{f.margin:.2g}",
                f"{f.allowed:.2g}",
                "within tolerance" if f.excused else "WRONG",
            )
            for f in verdict.flips[: 2 * SHOWN]
        ]
        out.print(table(f"flips behind a step: {len(verdict.flips)}", head, rows))
    _notes(out, f"Colonnade refuses {len(verdict.refused)} rows that the source answers", verdict.refused)
    _notes(out, f"Colonnade answers {len(verdict.answered)} rows that the source refuses", verdict.answered)
    _notes(out, f"Colonnade crashed {len(verdict.crashed)} times", verdict.crashed)
    refused = (
        f"{len(verdict.no_oracle)} rows have no oracle (the source refuses them), {verdict.both_refused} are refused"
    )
    _notes(out, f"{refused} by both", verdict.no_oracle)
    if verdict.overflow:
        out.print(f"{verdict.overflow} rows with dense inputs that may overflow: columns compared, dense values not")
    for key, reason in list(verdict.unchecked.items())[:SHOWN]:
        out.print(f"not compared: {key} ({reason})", markup=False)
    if len(verdict.unchecked) > SHOWN:
        out.print(f"... and {len(verdict.unchecked) - SHOWN} more points that the source does not show")
    share = len(verdict.no_oracle) / max(verdict.rows, 1)
    if not verdict.enough:
        counts = f"{verdict.ordinary_refused} of {verdict.ordinary} ordinary rows"
        out.print(f"NOT ENOUGH IS COMPARED: the source refuses {counts}, so that this is no check")
    elif share > MOST_REFUSED:
        out.print(f"WARNING: the source refuses {share:.0%} of the rows: little is compared but ordinary values")
    only = f": every output; {len(verdict.unchecked)} inner points are not shown" if verdict.unchecked else ""
    out.print(f"{f'EQUAL{only}' if verdict.ok else 'NOT EQUAL'} ({human_seconds(verdict.seconds)})")


def _row(result: PointResult) -> tuple[object, ...]:
    worst = result.worst
    if result.problem:
        return (result.point.name, result.compared, "", "", "", "", result.request, result.problem, "")
    if not result.differing:
        return (result.point.name, f"{result.compared:,}", 0, 0, "", "", "", "", "")
    ratio = "" if result.outside and worst.ratio > 1e6 else f"{worst.ratio:.2g}"
    place = f"{result.request} row {worst.row}, {worst.element}"
    counts = (f"{result.compared:,}", f"{result.differing:,}", f"{result.outside:,}")
    return (result.point.name, *counts, f"{worst.worst:.3g}", ratio, place, worst.got, worst.want)


def _notes(out: Console, title: str, notes: list[RowNote]) -> None:
    if not notes:
        return
    out.print(title)
    for note in notes[:SHOWN]:
        out.print(f"  {note.request} row {note.row}: {note.message.splitlines()[0][:140]}", markup=False)
