"""Colonnade and TensorFlow side by side in one process: the check first, then the times.

The floor of the columns is the time to move the bytes that any implementation must move (inputs read, distinct table
rows read, output written) at the copy bandwidth that this machine shows; it leaves out all computation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.backends.backend import Backend, layouts
from colonnade.backends.dense import DensePlan
from colonnade.backends.feed import FeedReader
from colonnade.executable import Executable
from colonnade.ir.column import Column, fields_read
from colonnade.ir.program import Program, Weights
from colonnade.testing import html
from colonnade.testing.compare import elements_read
from colonnade.testing.machine import commit, copy_bandwidth, machine, now, versions
from colonnade.testing.points import columns_only
from colonnade.testing.requests import Request, inputs_of, make_request
from colonnade.testing.sides import ColonnadeSide, Side, TensorFlowSide
from colonnade.testing.timing import Call, Timing, alternate, human_seconds
from colonnade.testing.verify import Verdict, verify

Array = NDArray[Any]
Progress = Callable[[str], None]

PRODUCTS = ("aten.mm", "aten.addmm", "aten.linear", "aten.matmul")
OURS, THEIRS, DENSE_ALONE = "colonnade", "tensorflow", "dense in torch alone"
MAX_CORNER = 64


@dataclass(frozen=True)
class Measured:
    """One batch size of one case, ready to be stored: a JSON row.

    what: `whole` (inputs to outputs) or `columns` (inputs to the concat).   sides: seconds a call by side.
    ratio: median of TensorFlow over median of Colonnade, where both were timed.   floor: see the module.
    parts: seconds a call of Colonnade's, by part.   check: what was verified before the first number.
    """

    case: str
    what: str
    batch: int
    sides: Mapping[str, Timing]
    ratio: float | None
    floor: Mapping[str, float]
    parts: Mapping[str, float]
    check: Mapping[str, Any]
    threads: int
    commit: str
    date: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]

    def row(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Refused:
    """A batch size whose check was red: no number is given."""

    case: str
    batch: int
    verdict: Verdict


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """torch's own threads within a block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class Bench:
    """A compiled model and, where there is one, the source in TensorFlow.

    checker: the source again, to check against: one that TensorFlow need not optimize for a thousand fetches.
    Facts: without an oracle nothing is checked here; the caller has verified recorded rows (`checked` says what).
    """

    case: str
    executable: Executable
    backend: Backend
    oracle: TensorFlowSide | None = None
    threads: int = 2
    checked: Mapping[str, Any] | None = None
    checker: TensorFlowSide | None = None

    def __post_init__(self) -> None:
        self.program: Program = self.executable.program
        self.weights: Weights = self.executable.weights
        self.columns = Executable(columns_only(self.program), self.weights, self.backend, threads=self.threads)
        self._side = ColonnadeSide(self.executable, self.backend, threads=self.threads)

    def run(
        self, batches: Sequence[int], runs: int, *, seed: int = 0, progress: Progress | None = None
    ) -> Iterator[Measured | Refused]:
        """For every batch size: check, then time the whole model and its columns."""
        say = progress or (lambda what: None)
        for batch in batches:
            request = make_request(self.program, "ordinary", batch, seed)
            say(f"{self.case}, batch {batch}: check")
            verdict = self._check(request, seed)
            if verdict is not None and not verdict.ok:
                yield Refused(self.case, batch, verdict)
                continue
            check = _checked(verdict) if verdict is not None else dict(self.checked or {})
            with torch_threads(self.threads):
                if self.program.dense:
                    say(f"{self.case}, batch {batch}: time the whole model")
                    yield self._measure("whole", request, self._whole(request), runs, check)
                say(f"{self.case}, batch {batch}: time the columns")
                yield self._measure("columns", request, self._columns(request), runs, check)

    def close(self) -> None:
        """Give back what TensorFlow holds."""
        for side in (self.oracle, self.checker):
            if side is not None:
                side.close()

    def _check(self, request: Request, seed: int) -> Verdict | None:
        oracle = self.checker or self.oracle
        if oracle is None:
            return None
        return checked_with(self._side, oracle, self.program, self.weights, request, seed)

    def _whole(self, request: Request) -> dict[str, Call]:
        calls: dict[str, Call] = {OURS: lambda: self.executable(request.feed)}
        if self.oracle is not None:
            calls[THEIRS] = oracle_call(self.oracle, request)
        dense = self._dense(request)
        if dense is not None:
            calls[DENSE_ALONE] = dense
        return calls

    def _columns(self, request: Request) -> dict[str, Call]:
        read = _read_by_columns(self.program)
        feed = {name: value for name, value in request.feed.items() if name in read}
        all_read = {i.name for i in self.columns.program.inputs} == feed.keys()
        calls: dict[str, Call] = {OURS: lambda: self.columns(feed if all_read else request.feed)}
        if self.oracle is not None and (tensors := self.oracle.concat_tensors()):
            calls[THEIRS] = oracle_call(self.oracle, request, tensors)
        return calls

    def _dense(self, request: Request) -> Call | None:
        """The dense rest by itself, on columns that are there already."""
        if not any(line.op.startswith(PRODUCTS) for line in self.program.dense):
            return None
        plan = DensePlan(self.program, self.weights.params)
        read = FeedReader(self.program, layouts(self.program), plan.inputs).read(request.feed)
        buffers = {name: torch.from_numpy(np.asarray(v)) for name, v in self.columns(request.feed).items()}
        values = {**read.tensors, **buffers}
        return lambda: plan.run(values, read.sizes)

    def _measure(
        self, what: str, request: Request, calls: dict[str, Call], runs: int, check: Mapping[str, Any]
    ) -> Measured:
        executable = self.executable if what == "whole" else self.columns
        before = executable.report()
        timings = alternate(calls, runs)
        after = executable.report()
        done = max(1, after.calls - before.calls)
        parts = {
            part: (getattr(after, f"{part}_seconds") - getattr(before, f"{part}_seconds")) / done
            for part in ("feed", "columns", "dense")
        }
        ratio = timings[THEIRS].p50 / timings[OURS].p50 if THEIRS in timings else None
        return Measured(
            case=self.case,
            what=what,
            batch=request.rows,
            sides=timings,
            ratio=ratio,
            floor=floor(self.program, self.weights, request, self.threads),
            parts=parts,
            check=check,
            threads=self.threads,
            commit=commit(),
            date=now(),
            machine=machine(),
            versions=versions(),
        )


def checked_with(
    ours: Side, oracle: Side, program: Program, weights: Weights, request: Request, seed: int, *, times: int = 1
) -> Verdict:
    """The request that is timed, answered `times` times, and corner rows."""
    corner = make_request(program, "corner", min(max(request.rows, 1), MAX_CORNER), seed)
    return verify(ours, oracle, program, weights, [*[request] * times, corner])


def _checked(verdict: Verdict) -> dict[str, Any]:
    return {
        "oracle": verdict.oracle,
        "rows": verdict.rows,
        "columns": len(verdict.of_kind("column")),
        "flips_within_tolerance": len(verdict.flips),
        "ok": verdict.ok,
    }


def oracle_call(oracle: TensorFlowSide, request: Request, fetches: Sequence[str] | None = None) -> Call:
    """TensorFlow's prepared call, on arrays in the form that it takes without converting."""
    keys = tuple(sorted(request.feed))
    call = oracle.model.callable(keys, fetches)
    values = [request.feed[key] for key in keys]
    arrays = [v.astype(object) if v.dtype.kind in "SU" else v for v in values]
    return lambda: call(*arrays)


def _read_by_columns(program: Program) -> frozenset[str]:
    fields = frozenset(name for c in program.columns for name in fields_read(c))
    offsets = {program.input(name).offsets for name in fields}
    return fields | {name for name in offsets if name is not None}


def floor(program: Program, weights: Weights, request: Request, threads: int) -> dict[str, float]:
    """Bytes that the columns must move, the copy bandwidth, and their quotient. Units: bytes, bytes/s, seconds."""
    moved = bytes_of_columns(program, request)
    bandwidth = copy_bandwidth(threads)
    return {"bytes": moved, "bytes_per_second": bandwidth, "seconds": moved / bandwidth}


def bytes_of_columns(program: Program, request: Request) -> int:
    """Each input that columns read, each table row that the request needs, and each slot: all of them once.

    Facts: a table that columns share counts a row once. Units: bytes.
    """
    feed = inputs_of(program, request.feed)
    moved = sum(_size(feed[name]) for name in _read_by_columns(program))
    rows: dict[str, list[torch.Tensor]] = {}
    for column in program.columns:
        moved += sum(4 * request.rows * slot.width for slot in column.slots)
        if column.table is not None:
            rows.setdefault(column.table, []).append(_rows_needed(column, program, feed, request.rows))
    tables = {t.name: t for t in program.tables}
    for name, needed in rows.items():
        moved += len(torch.unique(torch.cat(needed))) * tables[name].bytes // max(1, tables[name].rows)
    return moved


def _rows_needed(column: Column, program: Program, feed: Mapping[str, Array], rows: int) -> torch.Tensor:
    """The table rows that a column looks up; ids outside the table read none."""
    found = elements_read(column, program, feed, rows)
    ids = found.ids.long()
    inside = ids[(ids >= 0) & (ids < program.table(str(column.table)).rows)]
    has_empty = column.pooling != "none" and rows > len(torch.unique(found.rows))
    if column.default_row is None or not has_empty:
        return inside
    return torch.cat([inside, torch.tensor([column.default_row])])


def _size(value: Array) -> int:
    if value.dtype == object:
        return sum(len(v) for v in value.reshape(-1)) + 8 * value.size
    return value.nbytes


class Stored(Protocol):
    """What `append` takes."""

    @property
    def case(self) -> str:
        """Its case."""

    def row(self) -> dict[str, Any]:
        """As a JSON object."""


def append(folder: Path, rows: Sequence[Stored], prefix: str = "") -> Path | None:
    """Add the rows to `<folder>/<prefix><case>.jsonl`; gives the last file written."""
    path = None
    for measured in rows:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{prefix}{measured.case}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measured.row(), allow_nan=False) + "\n")
    return path


def report(title: str, rows: Sequence[Measured], refused: Sequence[Refused] = (), parts: Sequence[str] = ()) -> str:
    """The measurements as one HTML page, bars with the 20th to 80th percentile.   parts: what stands in front."""
    if not rows:
        return html.page(title, [*parts, *refusals(refused)])
    one = rows[0]
    where = f"{one.machine['cpu']}, {one.machine['cores']} cores, {one.threads} threads a side"
    packages = ", ".join(f"{name} {version}" for name, version in one.versions.items())
    lead = [
        html.paragraph(f"{where}; {packages}; commit {one.commit or 'unknown'}; {one.date}", note=True),
        html.paragraph(
            "Bars: median seconds a call; whiskers: 20th to 80th percentile. Runs alternate between the sides. "
            "Answers were compared before anything was timed. The floor of the columns is the time to move the bytes "
            "of inputs, distinct table rows and output at this machine's copy bandwidth; no computation is in it.",
            note=True,
        ),
    ]
    return html.page(title, [*parts, *lead, html.bars(groups(rows)), *_tables(rows), *refusals(refused)])


def groups(rows: Sequence[Measured]) -> list[html.Group]:
    """The bars of a page or picture: a group a row."""
    made = []
    for measured in rows:
        bars = html.bars_of(measured.sides)
        if measured.what == "columns":
            bars.append(html.floor_bar(measured.floor["seconds"]))
        gain = f": {measured.ratio:.1f} times as fast as TensorFlow" if measured.ratio else ""
        made.append((f"{measured.case}, {measured.what}, batch {measured.batch}{gain}", bars))
    return made


HEADERS = ("case", "what", "batch", "side", "p20", "p50", "p80", "first call", "TensorFlow / Colonnade")


def table_rows(rows: Sequence[Measured]) -> list[tuple[str, ...]]:
    """A line a side, for a table under `HEADERS`."""
    found = []
    for m in rows:
        for name, t in m.sides.items():
            times = tuple(map(human_seconds, (t.p20, t.p50, t.p80, t.first)))
            gain = f"{m.ratio:.1f}" if m.ratio and name == OURS else ""
            found.append((m.case, m.what, str(m.batch), name, *times, gain))
        if m.what == "columns":
            found.append((m.case, m.what, str(m.batch), "floor", "", human_seconds(m.floor["seconds"]), "", "", ""))
    return found


def _tables(rows: Sequence[Measured]) -> list[str]:
    parts = [
        (m.case, m.what, m.batch, *(human_seconds(m.parts[p]) for p in ("feed", "columns", "dense"))) for m in rows
    ]
    checks = [(m.case, m.batch, ", ".join(f"{k} {v}" for k, v in m.check.items())) for m in rows]
    return [
        html.section("Times", html.table(HEADERS, table_rows(rows), (2, 4, 5, 6, 7, 8))),
        html.section(
            "Colonnade's time by part",
            html.table(("case", "what", "batch", "feed", "columns", "dense"), parts, (2, 3, 4, 5)),
        ),
        html.section("Checked before", html.table(("case", "batch", "check"), list(dict.fromkeys(checks)), (1,))),
    ]


def refusals(refused: Sequence[Refused]) -> list[str]:
    """A section for each that got no number."""
    return [
        html.section(
            f"{r.case}, batch {r.batch}: no number, the check is red", html.paragraph(str(r.verdict.as_dict(worst=3)))
        )
        for r in refused
    ]
