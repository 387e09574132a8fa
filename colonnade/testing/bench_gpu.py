"""A compiled model on a GPU, timed in every form of request, with what the device did in one of them.

The floor of the columns is the time to move the bytes that they must move (`bench.bytes_of_columns`) at the bandwidth
of a large copy within the device's memory, measured in the same run; it leaves out all computation. Without a CUDA
device (the interpreted backend) the same is done by the host's clock, and nothing is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch.profiler import ProfilerActivity, profile

from colonnade.backends.backend import Backend, layouts
from colonnade.backends.feed import Request as PackedRequest
from colonnade.backends.gpu.columns import GpuColumns
from colonnade.backends.gpu.occupancy import Occupancy, occupancy
from colonnade.errors import OptionError
from colonnade.executable import Executable
from colonnade.ir.program import Program, Weights
from colonnade.testing import machine as host
from colonnade.testing.bench import OURS, THEIRS, Progress, Refused, bytes_of_columns, checked_with, oracle_call
from colonnade.testing.compare import allowed_of_dense, dense_rtol, difference
from colonnade.testing.explain_gpu import columns_of
from colonnade.testing.points import Point
from colonnade.testing.requests import Request, make_request, ragged
from colonnade.testing.rows import Row
from colonnade.testing.sides import Answer, ColonnadeSide, Side, TensorFlowSide
from colonnade.testing.timing import Call, Timing, alternate, quantiles
from colonnade.testing.verify import PointResult, Verdict

Array = NDArray[Any]

PACKED, ARROW, KERNEL = "colonnade, packed", "colonnade, record batch", "columns kernel"
CALLS = 5
"""Answers of a form that are compared: the first two run piece by piece, those after them as a CUDA graph."""
REQUESTS = 5
"""Requests that the profiler watches."""
MOST_PROFILES = 10
COLUMNS = "columns"
"""The kernel's name, and the part of that name in `GpuRunner.profile`."""
COPIES = ("Memcpy", "Memset")
_COPY_BYTES, _COPY_RUNS = 1 << 30, 10


@dataclass(frozen=True)
class Activities:
    """What the device did in one request, as torch's profiler saw it. kernels: seconds of each launch by name."""

    kernels: Mapping[str, Sequence[float]]
    copies: float
    requests: int

    def count(self, name: str | None = None) -> float:
        """Kernels a request, all or of one name."""
        return sum(len(t) for n, t in self.kernels.items() if name in (None, n)) / self.requests


class _Remembered:
    """An oracle that is asked once for each request."""

    def __init__(self, oracle: Side) -> None:
        self.name = oracle.name
        self._oracle = oracle
        self._last: tuple[Request, Answer] | None = None

    def answer(self, request: Request) -> Answer:
        if self._last is None or self._last[0] is not request:
            self._last = request, self._oracle.answer(request)
        return self._last[1]


class DeviceBench:
    """A program on the gpu backend and, where there is one, the source in TensorFlow.

    checker: the source again, to check against.   device: where the backend runs.
    Facts: without an oracle the caller has verified recorded rows (`checked` says what).
    """

    def __init__(
        self,
        case: str,
        program: Program,
        weights: Weights,
        backend: Backend,
        *,
        oracle: TensorFlowSide | None = None,
        checker: TensorFlowSide | None = None,
        checked: Mapping[str, Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.case = case
        self.program = program
        self.executable = Executable(program, weights, backend)
        self.side = ColonnadeSide(self.executable, backend)
        self.checked = checked
        self._runner = self.executable.runner
        self._reader = self.executable.reader
        self._weights = weights
        self._oracle, self._checker = oracle, checker
        is_there = torch.cuda.is_available()
        self._device = device or torch.device(f"cuda:{torch.cuda.current_device()}" if is_there else "cpu")
        self._columns = [columns for columns, _ in columns_of(program, weights, "error")]
        self._occupancy = [self._on_device(columns) for columns in self._columns]

    def run(
        self, batches: Sequence[int], runs: int, *, seed: int = 0, progress: Progress | None = None
    ) -> Iterator[Row | Refused]:
        """For every batch size: check, then time every form of request, then the columns' kernel."""
        say = progress or (lambda what: None)
        for batch in batches:
            request = make_request(self.program, "ordinary", batch, seed)
            say(f"{self.case}, batch {batch}: check")
            calls = self._calls(request)
            first = self._check(request, seed)
            red = [v for v in (first, *(self._same(name, c, request) for name, c in calls.items())) if v and not v.ok]
            if red:
                yield Refused(self.case, batch, red[0])
                continue
            say(f"{self.case}, batch {batch}: time")
            yield from self._measured(request, calls, self._checks(first, calls), runs)

    def close(self) -> None:
        """Give back what TensorFlow holds."""
        for side in (self._oracle, self._checker):
            if side is not None:
                side.close()

    def _calls(self, request: Request) -> dict[str, Call]:
        """A request in every form that there is of it."""
        packed = self._reader.read(request.feed)
        calls: dict[str, Call] = {
            OURS: lambda: self.executable(request.feed),
            PACKED: lambda: self._runner.run(packed).outputs,
        }
        batch = record_batch(self.program, request)
        if batch is not None:
            calls[ARROW] = lambda: self.executable(batch)
        return calls

    def _check(self, request: Request, seed: int) -> Verdict | None:
        oracle = self._checker or self._oracle
        if oracle is None:
            return None
        return checked_with(self.side, _Remembered(oracle), self.program, self._weights, request, seed, times=CALLS)

    def _same(self, name: str, call: Call, request: Request) -> Verdict:
        """The answers of a form, its replays among them, against the very first one."""
        want = self.executable(request.feed)
        rtol = dense_rtol(self.program)
        points = [Point(f"output:{o.name}", "output", o.name) for o in self.program.outputs]
        results = {p.key: PointResult(p) for p in points}
        for k in range(CALLS):
            for key, value in call().items():
                first = np.asarray(want[key])
                found = difference(np.asarray(value), first, allowed_of_dense(first, rtol))
                results[f"output:{key}"].add(found, f"{name}, answer {k}")
        return Verdict("the first answer", rtol, results, requests=[request.name], rows=CALLS * request.rows)

    def _checks(self, verdict: Verdict | None, calls: Mapping[str, Call]) -> dict[str, dict[str, Any]]:
        found = dict(self.checked or {})
        reference = verdict.oracle if verdict is not None else str(found.get("oracle", "recorded rows"))
        elements = sum(r.compared for r in verdict.results.values()) if verdict is not None else found.get("rows", 0)
        worst = max([0.0, *(r.worst.worst for r in verdict.results.values())]) if verdict is not None else 0.0
        first = {"reference": reference, "elements": elements, "outside": 0, "worst": worst, "note": ""}
        again = {"reference": OURS, "elements": elements, "outside": 0, "worst": 0.0, "note": f"{CALLS} answers equal"}
        return {name: first if name == OURS else again for name in calls}

    def _measured(
        self, request: Request, calls: dict[str, Call], checks: dict[str, dict[str, Any]], runs: int
    ) -> Iterator[Row]:
        packed = self._reader.read(request.feed)
        theirs = {} if self._oracle is None else {THEIRS: oracle_call(self._oracle, request)}
        sides = alternate({**calls, **theirs}, runs)
        parts = self._parts(packed, min(runs, MOST_PROFILES))
        parts["read"] = alternate({"read": lambda: self._reader.read(request.feed)}, runs)["read"]
        found = activities(calls[PACKED], REQUESTS, self._device)
        floor = self._floor(request)
        more = {} if THEIRS not in sides else {f"{THEIRS} / {OURS}": sides[THEIRS].p50 / sides[OURS].p50}
        counts = {} if found is None else self._counts(found)
        notes = {"notes": "; ".join(self._runner.notes)} if self._runner.notes else {}
        yield self._row("whole", request, sides, checks, {}, parts, {**more, **counts, **notes})
        if not self.program.columns:
            return
        launches = [] if found is None else found.kernels.get(COLUMNS, [])
        kernel = quantiles(launches, launches[0], 1) if launches else parts[COLUMNS]
        facts: dict[str, Any]
        if self._num_host_tables:  # what the host pools is no work of the kernel: neither its bytes nor its programs
            floor, facts = {}, {"tables in host memory": self._num_host_tables}
        else:
            facts = {"GB/s": floor["bytes"] / kernel.p50 / 1e9, **self._launch(packed)}
        yield self._row("columns", request, {KERNEL: kernel}, {KERNEL: checks[OURS]}, floor, {}, facts)

    @property
    def _num_host_tables(self) -> int:
        return sum(place == "host" for place in self._runner.table_places.values())

    def _parts(self, packed: PackedRequest, times: int) -> dict[str, Timing]:
        """Quantiles of each part, where the runner tells them apart."""
        one: Callable[[PackedRequest], Mapping[str, float]] | None = getattr(self._runner, "profile", None)
        if one is None:
            raise OptionError("the parts of a request cannot be told apart", got=repr(self.executable), want="gpu")
        taken: dict[str, list[float]] = defaultdict(list)
        for _ in range(max(times, 1)):
            for part, nanoseconds in one(packed).items():
                taken[part].append(nanoseconds * 1e-9)
        return {part: quantiles(values, values[0], 1) for part, values in taken.items()}

    def _counts(self, found: Activities) -> dict[str, Any]:
        return {
            "kernels a request": found.count(),
            "kernels for the columns": found.count(COLUMNS),
            "copies and fills a request": found.copies,
        }

    def _launch(self, packed: PackedRequest) -> dict[str, Any]:
        """Programs of the launches, and what they take of the device."""
        programs = [_programs(c, p) for c, p in zip(self._columns, self._columns_packed(packed), strict=True)]
        facts: dict[str, Any] = {"programs": sum(programs)}
        for k, (found, count) in enumerate(zip(self._occupancy, programs, strict=True)):
            if isinstance(found, str):
                facts["waves"] = f"unknown: {found}"
            elif found is not None:
                one = f" of launch {k}" if len(programs) > 1 else ""
                taken = found.resources
                facts |= {
                    f"waves{one}": found.waves(count),
                    f"programs at a time a multiprocessor{one}": found.resident,
                    f"registers a thread{one}": taken.registers,
                    f"shared bytes a program{one}": taken.shared,
                    f"warps a program{one}": taken.warps,
                }
        return facts

    def _columns_packed(self, packed: PackedRequest) -> list[Any]:
        names = [c.layout.fields for c in self._columns]
        return [p for x, p in zip(layouts(self.program), packed.packed, strict=True) if x.fields in names]

    def _on_device(self, columns: GpuColumns) -> Occupancy | str | None:
        """None without a CUDA device; why registers cannot be counted there, in words."""
        try:
            return occupancy(columns.schedule, self._device) if self._device.type == "cuda" else None
        except OptionError as error:  # times need no registers
            return error.message

    def _floor(self, request: Request) -> dict[str, float]:
        moved, bandwidth = bytes_of_columns(self.program, request), copy_bandwidth(self._device)
        return {"bytes": moved, "bytes_per_second": bandwidth, "seconds": moved / bandwidth}

    def _row(
        self,
        what: str,
        request: Request,
        sides: Mapping[str, Timing],
        checks: Mapping[str, Mapping[str, Any]],
        floor: Mapping[str, float],
        parts: Mapping[str, Timing],
        facts: Mapping[str, Any],
    ) -> Row:
        made = Row(self.case, what, request.rows, sides, checks, floor, parts, facts)
        return made.placed(self._device)


def _programs(columns: GpuColumns, packed: Any) -> int:
    """Programs of one launch for a request of its own size."""
    header = columns.header
    addresses = {name: (0,) for name in header.words}
    tiles = header.write(np.zeros(header.num_words, np.int64), packed, addresses)
    return columns.schedule.numbers(packed.rows, tiles)[-1]


def activities(call: Call, requests: int, device: torch.device) -> Activities | None:
    """What the device does in some calls; None without a CUDA device."""
    if device.type != "cuda":
        return None
    call()
    torch.cuda.synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(requests):
            call()
        torch.cuda.synchronize(device)
    kernels: dict[str, list[float]] = defaultdict(list)
    copies = 0
    for event in profiler.events() or []:
        if event.device_type.name != "CUDA":
            continue
        if event.name.startswith(COPIES):
            copies += 1
        else:
            kernels[event.name].append(event.time_range.elapsed_us() * 1e-6)
    return Activities(dict(kernels), copies / requests, requests)


@cache
def copy_bandwidth(device: torch.device) -> float:
    """Bytes read and written a second by a large copy within the device's memory: the median of some runs."""
    if device.type != "cuda":
        return host.copy_bandwidth(1)
    source = torch.ones(_COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    found = []
    for _ in range(_COPY_RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize(device)
        found.append(begin.elapsed_time(end) * 1e-3)
    return 2 * _COPY_BYTES / float(np.median(found))


def record_batch(program: Program, request: Request) -> pa.RecordBatch | None:
    """A request as an Arrow record batch; None where an input has no rows, or more than one value in several dims."""
    fields = ragged(program)
    ends = frozenset(fields.values())
    arrays = {}
    for item in program.inputs:
        value = request.feed[item.name]
        if item.name in ends:
            continue
        if item.name in fields:
            offsets = request.feed[fields[item.name]].astype(np.int64)
            arrays[item.name] = pa.LargeListArray.from_arrays(offsets, _arrow(value))
        elif value.ndim in (1, 2) and len(value) == request.rows and not isinstance(item.shape[0], int):
            arrays[item.name] = _arrow(value)
        else:
            return None
    return pa.RecordBatch.from_pydict(arrays)


def _arrow(value: Array) -> pa.Array:
    flat = np.ascontiguousarray(value).reshape(-1)
    array = pa.array(flat, type=pa.large_binary()) if value.dtype == object else pa.array(flat)
    width = 1 if value.ndim == 1 else value.shape[1]
    return array if width == 1 else pa.FixedSizeListArray.from_arrays(array, width)
