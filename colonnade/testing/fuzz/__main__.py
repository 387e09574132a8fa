"""`python -m colonnade.testing.fuzz`: random models until there are enough cases, then a table."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from colonnade.errors import ColonnadeError
from colonnade.testing.fuzz.check import BACKENDS, prepare
from colonnade.testing.fuzz.run import Outcome, Result, run, run_one
from colonnade.testing.tensorflow import tensorflow

app = typer.Typer(add_completion=False)
INTERRUPTED = 130
WIDTH = 160
"""Of a table where there is no terminal."""


def table(outcome: Outcome, backends: list[str]) -> Table:
    """A row a model: what was compared and how many disagreements each backend has."""
    found = Table(title=f"seed {outcome.seed}")
    for name in ("model", "cases", "columns", "rows", "values", "no oracle", *backends, "seconds"):
        found.add_column(name, justify="right")
    for result in outcome.results:
        c = result.counts
        failed = [_cell(result.failed.get(b)) for b in backends]
        numbers = [result.model.index, len(result.model.cases), c.columns, c.rows, c.compared, c.no_oracle]
        found.add_row(*(f"{n:,}" for n in numbers), *failed, f"{sum(c.seconds.values()):.1f}")
    return found


def _cell(failed: int | None) -> str:
    if failed is None:
        return "-"
    return f"[red]{failed}[/red]" if failed else "[green]ok[/green]"


@app.command()
def fuzz(
    cases: Annotated[int, typer.Option(help="column cases, in models of 20 to 50")] = 200,
    seed: Annotated[int, typer.Option(help="the same seed gives the same models and requests")] = 0,
    backends: Annotated[str, typer.Option(help="of reference, cpu, gpu")] = "reference,cpu,gpu",
    model: Annotated[int | None, typer.Option(help="this model of the seed alone")] = None,
    columns: Annotated[str, typer.Option(help="with --model: the cases that are kept")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="where to write the results")] = None,
) -> None:
    """Compare random models with TensorFlow; exit status 1 where anything disagrees.

    Ctrl-C, or a termination, ends it with the table of the models that are done.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    asked = [b for b in backends.split(",") if b]
    if unknown := set(asked) - set(BACKENDS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} is none of {', '.join(BACKENDS)}")
    try:
        prepare(asked)
        torch.set_num_threads(1)  # these tensors are small: several threads take longer, most of all beside other work
        tensorflow().get_logger().setLevel("ERROR")  # it deprecates every feature column at length
        if model is not None:
            outcome = run_one(seed, model, {int(n) for n in columns.split(",") if n} or None, asked)
            for result in outcome.results:
                _disagreements(console, result)
        else:
            outcome = _run(console, seed, cases, asked)
    except ColonnadeError as error:
        console.print(f"{type(error).__name__}: {error}", markup=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:  # before the first model
        raise typer.Exit(INTERRUPTED) from None
    _show(console, outcome, asked)
    if json_file is not None:
        json_file.write_text(json.dumps(outcome.as_dict(), indent=2))
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if outcome.ok else 1)


def _run(console: Console, seed: int, cases: int, backends: list[str]) -> Outcome:
    """A spinner on a terminal, lines elsewhere."""
    if not console.is_terminal:
        return run(
            seed, cases, backends, progress=Lines(console, cases), report=lambda result: _disagreements(console, result)
        )
    shown = SpinnerColumn(), TextColumn("{task.completed}/{task.total} cases"), TextColumn("{task.description}")
    with Progress(*shown, TimeElapsedColumn(), console=console, transient=True) as bars:
        task = bars.add_task("start", total=cases)
        return run(
            seed,
            cases,
            backends,
            progress=lambda what, n: bars.update(task, description=what, advance=n),
            report=lambda result: _disagreements(console, result),
        )


class Lines:
    """A line for each part as it begins: what is done, of how many cases, and the time so far."""

    def __init__(self, console: Console, cases: int) -> None:
        self._console, self._cases, self._done, self._began = console, cases, 0, time.perf_counter()

    def __call__(self, what: str, done: int) -> None:
        self._done += done
        seconds = time.perf_counter() - self._began
        said = f"{what} is done" if done else what
        self._console.print(
            f"{self._done}/{self._cases} cases, {seconds:.0f} s: {said}", markup=False, highlight=False, soft_wrap=True
        )


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _disagreements(console: Console, result: Result) -> None:
    """Those of one model, as soon as it is done."""
    for small in result.small:
        console.print(small.text(), markup=False, highlight=False, soft_wrap=True)
        console.print()


def _show(console: Console, outcome: Outcome, backends: list[str]) -> None:
    console.print(table(outcome, backends))
    done = sum(len(r.model.cases) for r in outcome.results)
    stopped = ", interrupted" if outcome.interrupted else ""
    console.print(f"{done} cases in {len(outcome.results)} models, {outcome.seconds:.0f} s{stopped}")


if __name__ == "__main__":
    app()
