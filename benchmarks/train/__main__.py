"""`python -m benchmarks.train [NAME ...]`: the steps of training beside torch, on one thread.

Loops alone in nanoseconds an id or row; whole steps from the fields of a batch on. A row a measurement is appended to
`benchmarks/results/train.jsonl`, none where the sides do not agree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from benchmarks.train.cases import CASES
from benchmarks.train.whole import WHOLE
from colonnade.testing.machine import commit, machine, now, versions
from colonnade.testing.timing import Timing, alternate, human_seconds

RESULTS = Path(__file__).parent.parent / "results" / "train.jsonl"
COUNTS = (50_000, 1_000_000)


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; without any, all.")] = None,
    count: Annotated[int | None, typer.Option("--count", min=100, help="Ids, or rows, of a loop's call.")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1)] = 10,
    write: Annotated[bool, typer.Option("--write/--no-write", help="Append the rows to the results.")] = True,
) -> None:
    """Check every case, then time it."""
    known = [*CASES, *WHOLE]
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: cases are {', '.join(known)}")
    torch.set_num_threads(1)
    red = 0
    for name in names or known:
        for row in _loops(name, (count,) if count else COUNTS, runs) if name in CASES else _whole(name, runs):
            if row is None:
                red += 1
                print(f"{name}: differs from torch, no number", file=sys.stderr)
                continue
            print(_line(row), flush=True)
            if write:
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    sys.exit(1 if red else 0)


def _loops(name: str, counts: tuple[int, ...], runs: int) -> Iterator[dict[str, Any] | None]:
    for count in counts:
        case = CASES[name](count // 10 * 10)
        if not case.agree():
            yield None
            continue
        yield _row(name, "loop", count, case.units, alternate({"ours": case.ours, "torch": case.theirs}, runs))


def _whole(name: str, runs: int) -> Iterator[dict[str, Any] | None]:
    sides = WHOLE[name]()
    if not sides.agree():
        yield None
        return
    for what, calls in sides.calls.items():
        yield _row(name, what, sides.batch, sides.ids, alternate(calls, runs))


def _row(name: str, what: str, batch: int, units: int, taken: Mapping[str, Timing]) -> dict[str, Any]:
    ratio = taken["torch"].p50 / taken["ours"].p50
    return {
        "case": name, "what": what, "batch": batch, "units": units, "threads": 1, "ratio": round(ratio, 2),
        "sides": {side: asdict(timing) for side, timing in taken.items()}, "machine": machine(),
        "versions": versions(), "commit": commit(), "date": now(),
    }  # fmt: skip


def _line(row: Mapping[str, Any]) -> str:
    parts = []
    for side, timing in row["sides"].items():
        each = f"{1e9 * timing['p50'] / row['units']:.1f} ns an id"
        parts.append(f"{side} {human_seconds(timing['p50'])} ({each})")
    return f"{row['case']:<12} {row['what']:<8} {row['batch']:>9,}  {', '.join(parts)}: {row['ratio']:.1f} times"


if __name__ == "__main__":
    typer.run(main)
