"""`python -m benchmarks.train.device [NAME ...]`: pooling and its gradients on a device beside their floor and FBGEMM.

Rows are stored as those of `benchmarks.gpu` are.

Every answer is compared with float64 before it is timed. The floor is bytes over the bandwidth of a copy: the row of
each element read, or each distinct row once; the outputs; the numbers of rows.

Legend: F features; B batch rows; N elements; U rows of a matrix; D embedding_dim.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from benchmarks.gpu import fbgemm, ragged
from benchmarks.gpu.clock import Clock, copy_bandwidth
from benchmarks.gpu.rows import Check, Refused, append, here, table_rows, text_table, timed
from colonnade.testing.rows import Row
from colonnade.testing.timing import Timing
from colonnade.train.gpu.segment import GpuPooling
from colonnade.train.gpu.spreading import GpuSpreading
from colonnade.train.segments import Segment, layout_of, matrices_in

CASE, REFERENCE = "pooling", "torch float64"
POOL, SPREAD, IN_ORDER = "colonnade", "colonnade, gradients", "colonnade, gradients in order"
GATHER, LOOKUP = "distinct rows gathered", "FBGEMM, in a CUDA graph"

RUNS = 15
TOLERANCE = 1e-4
"""Of the greatest element."""
BAGS = 50_000
SKEWS = {"uniform": 0.0, "half on one row": 1.1, "a third on one row": 0.5}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Problem:
    """Features pooled by sum into one output. matrices: of each feature.

    theirs: FBGEMM's lookup.   gather: the distinct rows copied out of tables.
    """

    name: str
    matrices: tuple[int, ...]
    rows: list[torch.Tensor]
    offsets: torch.Tensor
    inverse: torch.Tensor
    theirs: Callable[[], fbgemm.Lookup | None] | None = None
    gather: Callable[[], object] | None = None

    @property
    def dims(self) -> list[int]:
        """D of each feature."""
        return [self.rows[m].shape[1] for m in self.matrices]

    @property
    def batch(self) -> tuple[torch.Tensor, torch.Tensor, None]:
        """What pooling takes."""
        return self.offsets, self.inverse, None

    def bags(self, f: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of a feature's elements, and the batch row of each."""
        ends = self.offsets[f]
        numbers = torch.repeat_interleave(torch.arange(len(ends) - 1, device=ends.device), ends[1:] - ends[:-1])
        return self.inverse[int(ends[0]) : int(ends[-1])].long(), numbers

    def floors(self) -> tuple[float, float]:
        """Seconds, with a row an element read, and with each row once."""
        sizes = (self.offsets[:, -1] - self.offsets[:, 0]).tolist()
        batch = self.offsets.shape[1] - 1
        fixed = 4 * len(self.inverse) + 4 * batch * sum(self.dims)
        each = sum(4 * n * d for n, d in zip(sizes, self.dims, strict=True))
        once = sum(4 * x.numel() for x in self.rows)
        bandwidth = copy_bandwidth(self.offsets.device)
        return (fixed + each) / bandwidth, (fixed + min(each, once)) / bandwidth


def _offsets(lengths: torch.Tensor) -> torch.Tensor:
    """int64 [F, B + 1] of lengths [F, B]."""
    ends = lengths.reshape(-1).cumsum(0).view(lengths.shape)
    firsts = torch.cat([ends.new_zeros(1), ends[:-1, -1]])
    return torch.cat([firsts[:, None], ends], 1)


def one_row_each(batch: int, tables: int = 1000, rows: int = 101, dim: int = 8) -> Problem:
    """A thousand small tables, one row of each for a batch row."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    ids = torch.randint(0, rows, (tables, batch), generator=generator, device=DEVICE)
    matrix = torch.randn(tables * rows, dim, generator=generator, device=DEVICE)
    inverse = (ids + rows * torch.arange(tables, device=DEVICE)[:, None]).int().reshape(-1)
    offsets = _offsets(torch.ones(tables, batch, dtype=torch.int64, device=DEVICE))
    return Problem(
        f"{tables} tables x {dim}, batch {batch}", (0,) * tables, [matrix], offsets, inverse,
        lambda: fbgemm.one_row_lookup(list(matrix.view(tables, rows, dim)), [ids]),
    )  # fmt: skip


def bags(count: int, dim: int, skew: str, distinct: int = 200_000) -> Problem:
    """One feature of equal bags."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    alpha = SKEWS[skew]
    ids = torch.randint(0, distinct, (count,), generator=generator, device=DEVICE)
    if alpha:
        drawn = torch.rand(count, generator=generator, device=DEVICE, dtype=torch.float64)
        ids = (drawn.pow(-1 / alpha).clamp(max=1e15).long() * 7919) % distinct
    matrix = torch.randn(distinct, dim, generator=generator, device=DEVICE)
    offsets = _offsets(torch.full((1, min(BAGS, count)), count // min(BAGS, count), device=DEVICE))
    return Problem(f"{count} ids x {dim}, {skew}", (0,), [matrix], offsets, ids.int())


def workload(shape: ragged.Shape) -> Problem:
    """A model's features, distinct rows gathered; a matrix for each embedding_dim."""
    made = ragged.Workload.of(shape)
    batch, widths = made.batch(0), made.widths
    matrices = sorted(set(widths))
    of_feature = tuple(matrices.index(width) for width in widths)
    lengths = torch.from_numpy(batch.lengths)
    features = np.repeat(np.arange(shape.features), batch.lengths.sum(1))
    inverse, rows, gathers = np.empty(len(batch.ids), np.int32), [], []
    tables = [torch.randn(shape.rows, dim, device=DEVICE) for dim in made.table_dims]
    for m, dim in enumerate(matrices):
        own = np.array(of_feature)[features] == m
        keys = np.array(made.feature_tables)[features[own]] * shape.rows + batch.ids[own]
        distinct, inverse[own] = np.unique(keys, return_inverse=True)
        chosen = np.searchsorted(np.flatnonzero(np.array(made.table_dims) == dim), distinct // shape.rows)
        stacked = torch.cat([t for t, d in zip(tables, made.table_dims, strict=True) if d == dim])
        places = torch.from_numpy(chosen * shape.rows + distinct % shape.rows).to(DEVICE)
        gathers.append((stacked, places))
        rows.append(stacked[places])
    ids = torch.from_numpy(batch.ids).to(DEVICE)
    ends = torch.from_numpy(batch.offsets).to(DEVICE)
    return Problem(
        f"{shape.name}, {len(batch.ids)} ids", of_feature, rows, _offsets(lengths.to(DEVICE)),
        torch.from_numpy(inverse).to(DEVICE),
        lambda: fbgemm.ragged_lookup(tables, made.feature_tables, [(ids, ends)]),
        lambda: [matrix[places] for matrix, places in gathers],
    )  # fmt: skip


class Measured:
    """A problem's calls, checked and timed."""

    def __init__(self, problem: Problem) -> None:
        self.problem, at, segments = problem, 0, []
        for f, (m, dim) in enumerate(zip(problem.matrices, problem.dims, strict=True)):
            segments.append(Segment(m, dim, "sum", 0, at, f))
            at += dim
        self.starts = [s.at for s in segments]
        self.pooling = GpuPooling(layout_of(segments, [at], ()))
        self.spreading = GpuSpreading(self.pooling)
        self.out = torch.full(((problem.offsets.shape[1] - 1) * at,), 7.0, device=DEVICE)
        self.given = torch.randn(self.out.shape, device=DEVICE)
        self.width = at

    def pool(self) -> None:
        """The outputs."""
        self.pooling.pool(self.problem.batch, self.problem.rows, [self.out], [])

    def spread(self, deterministic: bool = False) -> list[torch.Tensor]:
        """The gradients of rows."""
        rows = self.problem.rows
        shapes = [x.shape for x in rows]
        flat = self.spreading.spread(self.problem.batch, shapes, [self.out], [self.given], rows, [], deterministic)
        return matrices_in(flat, shapes)

    def checks(self) -> dict[str, Check]:
        """Of each call, the greatest error over the greatest element, against float64."""
        self.pool()
        found: dict[str, list[float]] = {POOL: [], SPREAD: [], IN_ORDER: []}
        exact = [torch.zeros(x.shape, dtype=torch.float64, device=DEVICE) for x in self.problem.rows]
        out, given = (x.view(-1, self.width) for x in (self.out, self.given))
        for f, (m, dim, at) in enumerate(zip(self.problem.matrices, self.problem.dims, self.starts, strict=True)):
            u, b = self.problem.bags(f)
            want = torch.zeros(len(out), dim, dtype=torch.float64, device=DEVICE)
            want.index_add_(0, b, self.problem.rows[m][u].double())
            found[POOL].append(_error(out[:, at : at + dim], want))
            exact[m].index_add_(0, u, given[:, at : at + dim][b].double())
        for side, deterministic in ((SPREAD, False), (IN_ORDER, True)):
            grads = self.spread(deterministic)
            found[side] += [_error(a, b) for a, b in zip(grads, exact, strict=True)]
        return {
            side: Check(REFERENCE, len(errors), sum(not e < TOLERANCE for e in errors), max(errors))
            for side, errors in found.items()
        }

    def measured(self, clock: Clock) -> Iterator[Row | Refused]:
        """A row, and sides that get no number."""
        each, once = self.problem.floors()
        checks = self.checks()
        times: dict[str, Callable[[], Timing]] = {
            POOL: lambda: clock.graph([self.pool]),
            SPREAD: lambda: clock.graph([self.spread]),
            IN_ORDER: lambda: clock.events([lambda: self.spread(deterministic=True)]),
        }
        gather, lookup = self.problem.gather, None if self.problem.theirs is None else self.problem.theirs()
        if gather is not None:
            checks[GATHER] = Check("itself", 1, 0)
            times[GATHER] = lambda: clock.graph([gather])
        if lookup is not None:
            checks[LOOKUP] = Check("none: other tables' order", 1, 0)
            times[LOOKUP] = lambda: clock.graph(lookup.calls)
        batch = self.problem.offsets.shape[1] - 1
        sides, refused = timed(CASE, self.problem.name, batch, checks, times)
        yield from refused
        bandwidth = copy_bandwidth(DEVICE)
        floor = {"bytes": each * bandwidth, "bytes_per_second": bandwidth, "seconds": each}
        facts = {"us with each row once": 1e6 * once, "ids": len(self.problem.inverse)}
        yield Row(CASE, self.problem.name, batch, sides, checks, floor, facts=facts)


def _error(made: torch.Tensor, exact: torch.Tensor) -> float:
    """The greatest error over the greatest element; NaN is passed on."""
    return float((made - exact).abs().max() / exact.abs().max().clamp(min=1e-30)) if exact.numel() else 0.0


def problems(dry: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """Every problem, by the name of its case."""
    for batch in (2,) if dry else (256, 2048, 8192):
        yield "one row", partial(one_row_each, batch, *((3, 5) if dry else ()))
    for shape in () if dry else sorted(ragged.SHAPES, key=lambda shape: shape.batch):
        yield shape.name, partial(workload, replace(shape, longest=1000, rows=200_000))
    for count, dim in ((60, 8),) if dry else ((2_000_000, 8), (2_000_000, 16), (2_000_000, 32), (1_000_000, 128)):
        for skew in SKEWS:
            yield "bags", partial(bags, count, dim, skew, 4 if dry else 200_000)


def run(names: Sequence[str], out: Path | None, dry: bool, commit: str) -> bool:
    """Print and store all; gives whether every answer is right."""
    clock, is_right = Clock(DEVICE, 1 if dry else RUNS), True
    for case, make in problems(dry):
        if names and case not in names:
            continue
        for found in Measured(make()).measured(clock):
            if isinstance(found, Refused):
                is_right = False
                print(found, flush=True)
                continue
            print(text_table(table_rows([found.placed(here(), commit).row()])), flush=True)
            if out is not None:
                append(out, found, commit)
    return is_right


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; without any, all.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where rows go.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Tiny sizes, which run without a device.")] = False,
    commit: Annotated[str, typer.Option("--commit", help="Of the source, where there is no repository.")] = "",
) -> None:
    """Check every case, then time it."""
    sys.exit(0 if run(names or [], out, dry, commit) else 1)


if __name__ == "__main__":
    typer.run(main)
