"""`make demo`: a model of the E family, from SavedModel to a checked, timed artifact, with a report.

The model is E with a tenth of its columns (100 columns, the whole network), made here with random weights.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

import colonnade.compiler as compiler
from colonnade.cli.common import (
    ERROR,
    MISMATCH,
    console,
    human_bytes,
    table,
    write_text,
)
from colonnade.cli.compile import summary_rows
from colonnade.cli.explain import sections
from colonnade.cli.verify import show
from colonnade.errors import ColonnadeError
from colonnade.executable import Executable
from colonnade.testing import html
from colonnade.testing.bench import HEADERS, Bench, Measured, report, table_rows
from colonnade.testing.explain import details, summary
from colonnade.testing.models import cached
from colonnade.testing.sides import ColonnadeSide, TensorFlowSide
from colonnade.testing.tensorflow import quiet_tensorflow
from colonnade.testing.timing import human_seconds
from colonnade.testing.verify import Verdict, requests_for, verify

MODEL = "E10"
FOLDER = Path("build") / "demo"
BATCHES = (1, 32, 256)
RUNS = 15
THREADS = 2


@contextmanager
def step(number: int, what: str) -> Iterator[None]:
    """Says what is being done, and how long it took."""
    print(f"[{number}/6] {what} ... ", end="", flush=True)
    began = time.perf_counter()
    yield
    print(human_seconds(time.perf_counter() - began), flush=True)


def demo() -> bool:
    """Run it; whether every answer was equal."""
    out = console()
    with step(1, f"make the SavedModel {MODEL} (kept for the next time)"):
        model = cached(MODEL)
    with step(2, "compile it without TensorFlow"):
        executable = compiler.compile(model, threads=THREADS)
    path = FOLDER / f"{MODEL}.colonnade"
    with step(3, f"save it as {path} and load it back"):
        FOLDER.mkdir(parents=True, exist_ok=True)
        executable.save(path)
        executable = compiler.load(path, threads=THREADS, check="full")
    size = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    out.print(table("", ("", ""), summary_rows(summary(executable.program, executable.explanation))))
    out.print(f"artifact: {human_bytes(size)}")
    backend = compiler.backend("cpu")
    with step(4, "load it in TensorFlow"):
        oracle = TensorFlowSide(model, executable.program, threads=THREADS, optimize=True)
        checker = TensorFlowSide(model, executable.program, threads=THREADS)
    program, weights = executable.program, executable.weights
    with step(5, "verify every column, the concat and the outputs on ordinary and corner rows"):
        ours = ColonnadeSide(executable, backend, threads=THREADS)
        verdict = verify(ours, checker, program, weights, requests_for(program))
    show(out, verdict)
    if not verdict.ok:
        print("the check is red, so nothing is timed")
        return False
    with step(6, f"time both sides, batch sizes {', '.join(map(str, BATCHES))}"):
        bench = Bench(MODEL, executable, backend, oracle, THREADS, checker=checker)
        found = list(bench.run(BATCHES, RUNS))
        bench.close()
    measured = [m for m in found if isinstance(m, Measured)]
    out.print(table("", HEADERS, table_rows(measured), numbers=(2, 4, 5, 6, 7, 8)))
    page = FOLDER / "report.html"
    write_text(page, _report(executable, verdict, measured))
    print(f"report: {page}")
    return len(measured) == len(found)


def _report(executable: Executable, verdict: Verdict, measured: list[Measured]) -> str:
    found = details(executable.program, executable.explanation, executable.weights)
    parts = [
        html.section("Compilation", html.table(("", ""), summary_rows(found))),
        html.section("Verified against " + verdict.oracle, *_verdict(verdict)),
        *(html.section(title, html.table(headers, rows, numbers)) for title, headers, rows, numbers in sections(found)),
    ]
    return report(f"{MODEL}: Colonnade beside TensorFlow", measured, parts=parts)


def _verdict(verdict: Verdict) -> Iterator[str]:
    yield html.paragraph(f"{verdict.rows} rows in requests {', '.join(verdict.requests)}: equal")
    for kind in ("column", "concat", "before", "output"):
        rows = [
            (r.point.name, f"{r.compared:,}", r.differing, r.outside, f"{r.worst.worst:.3g}", f"{r.worst.ratio:.2g}")
            for r in verdict.of_kind(kind)
        ]
        headers = (kind, "elements", "other bits", "outside", "worst error", "/ allowed")
        yield html.table(headers, rows, (1, 2, 3, 4, 5))


def main() -> int:
    """The exit status: 0, 1 where an answer differs, 2 for an error."""
    began = time.perf_counter()
    quiet_tensorflow()
    try:
        equal = demo()
    except ColonnadeError as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        typer.echo("\ninterrupted", err=True)
        return 130
    print(f"done in {human_seconds(time.perf_counter() - began)}")
    return 0 if equal else MISMATCH


if __name__ == "__main__":
    sys.exit(main())
