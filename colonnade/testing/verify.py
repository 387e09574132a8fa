"""Whether the compiled model answers as the source does: at columns, at the concat, before steps, at the outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ColonnadeError
from colonnade.ir.program import Instruction, Program, Weights
from colonnade.testing.compare import (
    Difference,
    added_rtol,
    allowed_of_column,
    allowed_of_dense,
    dense_rtol,
    difference,
    overflowing,
)
from colonnade.testing.deviations import excuse
from colonnade.testing.points import Point, dense_inputs, margin, points_of, read_by, steps
from colonnade.testing.requests import Request, corner_rows, fixed_rows, inputs_of, make_request, take
from colonnade.testing.sides import CRASHES, Answer, Side

Array = NDArray[Any]
Progress = Callable[[str], None]

BATCHES = (1, 7)
ROWS = 64
MOST_ROWS = 4096
MAX_LISTED = 1000
NOT_ORDINARY = frozenset(("corner", "missing", "hostile"))
"""Kinds of requests, the first word of their names, of which a source may refuse every row."""


@dataclass
class PointResult:
    """One point over all requests: the worst difference, where it was seen, and counts."""

    point: Point
    worst: Difference = field(default_factory=Difference)
    request: str = ""
    compared: int = 0
    differing: int = 0
    outside: int = 0
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether every element of every request was within the tolerance."""
        return not self.outside and not self.problem

    def add(self, found: Difference, request: str) -> None:
        """Take in one request."""
        self.compared += found.elements
        self.differing += found.differing
        self.outside += found.outside
        self.problem = self.problem or found.problem
        if found.problem or (found.differing and found.ratio >= self.worst.ratio):
            self.worst, self.request = found, request


@dataclass(frozen=True)
class Flip:
    """An output that fell on the other side of a step.

    before: the value in front of the step, on the source's side; margin: its distance from the step.
    excused: the two values in front of it agree within the tolerance, and the step lies within it too.
    """

    output: str
    request: str
    row: int
    got: str
    want: str
    before: float
    margin: float
    allowed: float
    excused: bool


@dataclass(frozen=True)
class RowNote:
    """A row of a request and what was said about it."""

    request: str
    row: int
    message: str


@dataclass
class Verdict:
    """What a verification found.

    refused: rows that the source answers and Colonnade refuses.   crashed: rows on which Colonnade failed without an
    error of its own.   no_oracle: rows that the source itself refuses.   both_refused: how many of them Colonnade
    refuses as well.   answered: those that it answers although no deviation is listed.   overflow: how many rows had
    dense values that were not compared.   unchecked: points that the source cannot show, with the reason.
    ordinary: the rows of requests that are to be answered (all but corner and missing values); ordinary_refused: those
    of them that the source refuses.
    """

    oracle: str
    rtol: float
    results: dict[str, PointResult]
    requests: list[str] = field(default_factory=list)
    rows: int = 0
    flips: list[Flip] = field(default_factory=list)
    refused: list[RowNote] = field(default_factory=list)
    crashed: list[RowNote] = field(default_factory=list)
    answered: list[RowNote] = field(default_factory=list)
    no_oracle: list[RowNote] = field(default_factory=list)
    both_refused: int = 0
    overflow: int = 0
    ordinary: int = 0
    ordinary_refused: int = 0
    unchecked: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything agrees. Facts: a check that compared next to nothing, or not every output, is none."""
        flips = all(f.excused for f in self.flips)
        answered = any(r.compared for r in self.results.values()) and self.enough
        rows = not self.refused and not self.crashed and not self.answered
        outputs = not any(r.point.kind == "output" and r.point.key in self.unchecked for r in self.results.values())
        return answered and flips and rows and outputs and all(r.ok for r in self.results.values())

    @property
    def enough(self) -> bool:
        """Whether the source answers at least half of the rows that are to be answered."""
        return 2 * self.ordinary_refused <= self.ordinary

    def of_kind(self, kind: str) -> list[PointResult]:
        """The compared points of one kind, the worst first."""
        found = [r for r in self.results.values() if r.point.kind == kind and r.point.key not in self.unchecked]
        return sorted(found, key=lambda r: (r.ok, -r.outside, -r.worst.ratio, r.point.name))

    def as_dict(self, *, worst: int = 20) -> dict[str, Any]:
        """For `--json`: the `worst` points of each kind, and every failure."""
        kinds = {kind: self.of_kind(kind) for kind in ("column", "concat", "before", "output")}
        return {
            "ok": self.ok,
            "oracle": self.oracle,
            "requests": self.requests,
            "rows": self.rows,
            "dense_rtol": self.rtol,
            "seconds": self.seconds,
            "points": {kind: [_as_dict(r) for r in found[:worst]] for kind, found in kinds.items()},
            "compared": {kind: sum(r.compared for r in found) for kind, found in kinds.items()},
            "failed": {kind: sum(not r.ok for r in found) for kind, found in kinds.items()},
            "flips": [vars(f) for f in self.flips[:MAX_LISTED]],
            "refused": [vars(n) for n in self.refused[:MAX_LISTED]],
            "crashed": [vars(n) for n in self.crashed[:MAX_LISTED]],
            "answered": [vars(n) for n in self.answered[:MAX_LISTED]],
            "no_oracle": [vars(n) for n in self.no_oracle[:MAX_LISTED]],
            "both_refused": self.both_refused,
            "ordinary": self.ordinary,
            "ordinary_refused": self.ordinary_refused,
            "overflow_rows": self.overflow,
            "unchecked": self.unchecked,
        }


def _as_dict(result: PointResult) -> dict[str, Any]:
    return {
        "name": result.point.name,
        "source": result.point.source,
        "ok": result.ok,
        "compared": result.compared,
        "differing_bits": result.differing,
        "outside": result.outside,
        "request": result.request,
        "worst_error": result.worst.worst,
        "ratio_to_allowed": result.worst.ratio,
        "row": result.worst.row,
        "element": result.worst.element,
        "got": result.worst.got,
        "want": result.worst.want,
        "problem": result.problem,
    }


def requests_for(
    program: Program, batches: Sequence[int] = BATCHES, rows: int = ROWS, seed: int = 0
) -> Iterator[Request]:
    """Ordinary and corner requests of each batch size, larger ones, one of missing values, an empty one.

    Facts: the larger ordinary one has `rows` rows, the larger corner one as many as show every corner of every input,
    each boundary and its neighbours among them (at most `MOST_ROWS`). A program of a fixed number of rows gets as many
    requests of that number.
    """
    fixed = fixed_rows(program)
    if fixed is not None:
        most = min(max(rows, corner_rows(program)), MOST_ROWS)
        for kind, total in (("ordinary", rows), ("corner", most), ("missing", 1)):
            for k in range(-(-total // max(fixed, 1))):
                request = make_request(program, kind, fixed, seed + k)
                yield replace(request, name=f"{request.name}#{k + 1}")
        return
    for batch in dict.fromkeys((*batches, rows)):
        yield make_request(program, "ordinary", batch, seed)
    for batch in dict.fromkeys((*batches, min(max(rows, corner_rows(program)), MOST_ROWS))):
        yield make_request(program, "corner", batch, seed)
    yield make_request(program, "missing", 3, seed)
    yield make_request(program, "ordinary", 0, seed)


def verify(
    ours: Side,
    oracle: Side,
    program: Program,
    weights: Weights,
    requests: Iterator[Request] | Sequence[Request],
    *,
    progress: Progress | None = None,
) -> Verdict:
    """Compare two sides at every point of the program, request by request.

    Tolerance: columns and concats bit for bit where a row pools at most one element, else `allowed_of_column`; dense
    values within `dense_rtol` and `added_rtol`; what follows a step is equal, or a flip within that of the step.
    """
    points = points_of(program)
    verdict = Verdict(oracle.name, dense_rtol(program), {p.key: PointResult(p) for p in points})
    check = _Check(ours, oracle, program, weights, points, verdict)
    began = time.perf_counter()
    for request in requests:
        if progress is not None:
            progress(f"verify {request.name}")
        check.request(request)
    for key, result in verdict.results.items():
        if key not in check.shown:
            verdict.unchecked[key] = result.point.source or "no tensor of the source is known"
    verdict.seconds = time.perf_counter() - began
    return verdict


@dataclass
class _Check:
    ours: Side
    oracle: Side
    program: Program
    weights: Weights
    points: tuple[Point, ...]
    verdict: Verdict
    shown: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.base = self.rtol = self.verdict.rtol  # of the dense rest, and of the request
        self.steps: dict[str, tuple[Instruction, str]] = {}
        for line, kind in steps(self.program):
            for point in self.points:
                if point.kind == "before" and point.name in read_by(self.program, line):
                    self.steps[point.key] = (line, kind)
        self.dense_inputs = dense_inputs(self.program)
        self.buffers = {b.name for b in self.program.buffers}

    def request(self, request: Request) -> None:
        """Ask both sides; compare the rows that the oracle answers."""
        self.verdict.requests.append(request.name)
        self.verdict.rows += request.rows
        ordinary = request.name.partition("-")[0] not in NOT_ORDINARY
        self.verdict.ordinary += request.rows * ordinary
        asked, theirs, good = request, None, np.arange(request.rows)
        try:
            theirs = self.oracle.answer(request)
        except ColonnadeError:
            good, messages = rows_answered(self.program, self.oracle, request)
            self.verdict.ordinary_refused += (request.rows - len(good)) * ordinary
            for row, message in messages.items():
                self.verdict.no_oracle.append(RowNote(request.name, row, message))
                self._alone(request, row, message)
            if not len(good):
                return
            asked = take(self.program, request, good)
            theirs = self.oracle.answer(asked)
        try:
            mine = self.ours.answer(asked)
        except ColonnadeError:
            self._refusals(asked, good)
            return
        except CRASHES as error:
            self.verdict.crashed.append(RowNote(request.name, -1, f"{type(error).__name__}: {error}"))
            return
        self._compare(asked, mine, theirs)

    def _alone(self, request: Request, row: int, message: str) -> None:
        """A row without an oracle: an error of ours, or an answer of the right shape where a deviation is listed."""
        whole = fixed_rows(self.program) is not None
        alone = request if whole else take(self.program, request, [row] if request.rows else [])
        try:
            answer = self.ours.answer(alone)
        except ColonnadeError:
            self.verdict.both_refused += 1
            return
        except CRASHES as error:
            self.verdict.crashed.append(RowNote(request.name, row, f"{type(error).__name__}: {error}"))
            return
        if excuse(alone.rows, message) is None:
            self.verdict.answered.append(RowNote(request.name, row, message))
        for output in self.program.outputs:
            value = answer[f"output:{output.name}"]
            wrong = value.ndim != len(output.shape) or any(
                isinstance(d, int) and d != n for d, n in zip(output.shape, value.shape, strict=True)
            )
            if wrong:
                message = f"output {output.name!r} has the shape {list(value.shape)}"
                self.verdict.crashed.append(RowNote(request.name, row, message))

    def _refusals(self, request: Request, rows: NDArray[np.int64]) -> None:
        _, messages = rows_answered(self.program, self.ours, request)
        for row, message in messages.items():
            original = int(rows[row]) if len(rows) else 0
            self.verdict.refused.append(RowNote(request.name, original, message))

    def _compare(self, request: Request, mine: Answer, theirs: Answer) -> None:
        feed = inputs_of(self.program, request.feed)
        overflow = overflowing(self.program, self.dense_inputs, feed, request.rows)
        self.verdict.overflow += int(overflow.sum())
        rows = {b.name: len(mine[f"concat:{b.name}"]) for b in self.program.buffers}
        allowed = self._allowed(feed, rows)
        self.rtol = self.base + added_rtol(self.program, feed, rows)
        self.verdict.rtol = max(self.verdict.rtol, self.rtol)
        before: dict[str, tuple[Array, Array]] = {}
        for point in self.points:
            if point.key not in theirs or point.key not in mine:
                continue
            self.shown.add(point.key)
            got, want = mine[point.key], _shaped(theirs[point.key], mine[point.key])
            result = self.verdict.results[point.key]
            if point.kind == "column":
                result.add(difference(got, want, allowed[point.key]), request.name)
            elif point.kind == "concat":
                result.add(self._concat(point.name, (got, want), allowed, overflow), request.name)
            elif point.kind == "before":
                if not request.rows:
                    continue  # sizes of nothing differ: TensorFlow's reshapes of no elements say 1 where ours say 0
                got = _cut(got, want)
                limit = allowed_of_dense(want, self.rtol)
                result.add(self._dense(got, want, limit, overflow), request.name)
                before[point.key] = (want, np.broadcast_to(np.asarray(limit), want.shape))
            else:
                self._output(point, request, (got, want), allowed, before, overflow)

    def _allowed(self, feed: Mapping[str, Array], rows: Mapping[str, int]) -> dict[str, Array]:
        """By key. rows: of each buffer."""
        found: dict[str, Array] = {}
        for buffer in self.program.buffers:
            found[f"concat:{buffer.name}"] = np.zeros((rows[buffer.name], buffer.width))
        for column in self.program.columns:
            limit = allowed_of_column(column, self.program, self.weights, feed, rows[column.slots[0].output])
            found[f"column:{column.name}"] = limit
            for slot in column.slots:
                found[f"concat:{slot.output}"][:, slot.offset : slot.offset + slot.width] = limit
        return found

    def _concat(
        self, buffer: str, pair: tuple[Array, Array], allowed: Mapping[str, Array], overflow: NDArray[np.bool_]
    ) -> Difference:
        """A buffer: what columns do not fill, the dense rest does."""
        got, want = pair
        limit = np.array(allowed[f"concat:{buffer}"])
        others = np.ones(limit.shape[1], bool)
        for column in self.program.columns:
            for slot in column.slots:
                if slot.output == buffer:
                    others[slot.offset : slot.offset + slot.width] = False
        if others.any() and want.shape == limit.shape:
            limit[:, others] = np.broadcast_to(
                np.asarray(allowed_of_dense(want[:, others], self.rtol)), (len(want), int(others.sum()))
            )
            limit[np.ix_(overflow, others)] = np.inf
        return difference(got, want, limit)

    def _dense(self, got: Array, want: Array, limit: Array | float, overflow: NDArray[np.bool_]) -> Difference:
        if got.shape != want.shape or not overflow.any() or got.shape[:1] != overflow.shape:
            return difference(got, want, limit)
        return difference(got[~overflow], want[~overflow], np.broadcast_to(np.asarray(limit), want.shape)[~overflow])

    def _output(
        self,
        point: Point,
        request: Request,
        pair: tuple[Array, Array],
        allowed: Mapping[str, Array],
        before: Mapping[str, tuple[Array, Array]],
        overflow: NDArray[np.bool_],
    ) -> None:
        got, want = pair
        result = self.verdict.results[point.key]
        value = next(o.value.name for o in self.program.outputs if o.name == point.name)
        if value in self.buffers:
            result.add(self._concat(value, pair, allowed, overflow), request.name)
            return
        found = self._dense(got, want, allowed_of_dense(want, self.rtol), overflow)
        if found.outside and before:
            flips = list(self._flips(point, request, pair, before, overflow))
            self.verdict.flips.extend(flips)
            found = replace(found, outside=sum(not f.excused for f in flips))
        result.add(found, request.name)

    def _flips(
        self,
        point: Point,
        request: Request,
        pair: tuple[Array, Array],
        before: Mapping[str, tuple[Array, Array]],
        overflow: NDArray[np.bool_],
    ) -> Iterator[Flip]:
        """The rows whose output differs, each with the place in front of a step that is nearest to it."""
        got, want = pair
        limit = np.broadcast_to(np.asarray(allowed_of_dense(want, self.rtol)), want.shape)
        for row in np.flatnonzero(~overflow if len(overflow) == len(got) else np.ones(len(got), bool)):
            found = difference(got[row : row + 1], want[row : row + 1], limit[row : row + 1])
            if not found.outside:
                continue
            value, gap, permitted = self._nearest(before, int(row))
            yield Flip(
                output=point.name,
                request=request.name,
                row=int(row),
                got=found.got,
                want=found.want,
                before=value,
                margin=gap,
                allowed=permitted,
                excused=gap <= permitted,
            )

    def _nearest(self, before: Mapping[str, tuple[Array, Array]], row: int) -> tuple[float, float, float]:
        """Value, margin and tolerance of the element of a row, or of one for all rows, that is nearest to its step."""
        best = (float("nan"), float("inf"), 0.0)
        for key, (value, limit) in before.items():
            if value.ndim and row >= len(value):
                continue
            line, kind = self.steps[key]
            own = (value[row] if value.ndim else value).reshape(-1)
            gaps = margin(kind, own, line)
            limits = (limit[row] if limit.ndim else limit).reshape(-1)
            if not gaps.size:
                continue
            at = int(np.argmin(gaps - limits))
            if gaps[at] - limits[at] < best[1] - best[2]:
                best = (float(own[at]), float(gaps[at]), float(limits[at]))
        return best


def _shaped(value: Array, like: Array) -> Array:
    """The source's tensor in our shape, where it has the same rows: `[B, T, D]` as `[B*T, D]`, that as `[B, T*D]`."""
    same_rows = value.shape[:1] == like.shape[:1] or value.shape[-1:] == like.shape[-1:] or _several_a_row(value, like)
    is_marks = value.dtype == bool and like.dtype == np.float32  # of a comparison, each element a row or a place of one
    if value.shape != like.shape and value.size == like.size and (same_rows or is_marks):
        value = value.reshape(like.shape)
    return value.astype(like.dtype) if is_marks else value


def _cut(value: Array, like: Array) -> Array:
    """Without the rows that a device padded a batch with: of what is no output, it does not say how many there are."""
    padded = value.ndim == like.ndim > 0 and len(value) > len(like) and value.shape[1:] == like.shape[1:]
    return value[: len(like)] if padded else value


def _several_a_row(value: Array, like: Array) -> bool:
    """Whether `[B*T, D]` may be `[B, T*D]`."""
    return value.ndim == like.ndim == 2 and len(like) > 0 and len(value) % len(like) == 0


def rows_answered(program: Program, side: Side, request: Request) -> tuple[NDArray[np.int64], dict[int, str]]:
    """The rows that a side answers, and the others with its message, found by halving the request."""
    good: list[int] = []
    bad: dict[int, str] = {}
    if fixed_rows(program) is not None:  # no part of it is a request
        try:
            side.answer(request)
        except ColonnadeError as error:
            return np.zeros(0, np.int64), {0: error.message}
        return np.arange(request.rows), {}
    stack = [np.arange(request.rows)]
    while stack:
        rows = stack.pop()
        try:
            side.answer(take(program, request, rows))
        except ColonnadeError as error:
            if len(rows) > 1:
                stack += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
            else:
                bad[int(rows[0]) if len(rows) else 0] = error.message
        else:
            good.extend(int(r) for r in rows)
    return np.array(sorted(good), np.int64), bad
