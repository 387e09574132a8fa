"""`python -m benchmarks.train [NAME ...]`: nanoseconds an id or row beside torch, on one thread."""

from __future__ import annotations

import sys
from typing import Annotated

import torch
import typer

from benchmarks.train.cases import CASES
from colonnade.testing.timing import alternate


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; without any, all.")] = None,
    count: Annotated[int, typer.Option("--count", min=100, help="Ids, or rows, of a call.")] = 1_000_000,
    runs: Annotated[int, typer.Option("--runs", min=1)] = 10,
) -> None:
    """Check every case, then time it."""
    torch.set_num_threads(1)
    red = 0
    print(f"{'case':<10} {'ns':>8} {'torch ns':>9} {'times':>7}")
    for name in names or CASES:
        case = CASES[name](count // 10 * 10)
        if not case.agree():
            red += 1
            print(f"{name:<10} differs from torch")
            continue
        taken = alternate({"ours": case.ours, "theirs": case.theirs}, runs)
        ours, theirs = (1e9 * taken[side].p20 / case.units for side in ("ours", "theirs"))
        print(f"{name:<10} {ours:>8.1f} {theirs:>9.1f} {theirs / ours:>7.1f}")
    sys.exit(1 if red else 0)


if __name__ == "__main__":
    typer.run(main)
