"""Answers requests on a device: one copy in, the columns, the dense rest, one copy out; a CUDA graph a bucket of sizes.

Where the host pools some columns, its threads begin before the request is staged, and the caller joins them once the
device copies the request and runs the other columns: there are two copies in then, and two graphs.

The first request of a bucket runs piece by piece, the second one too and is then captured, the others replay the graph.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.arena import Loans, Room
from colonnade.backends.backend import Outcome
from colonnade.backends.dense import DensePlan
from colonnade.backends.feed import Request
from colonnade.backends.gpu.copies import Copies
from colonnade.backends.gpu.graphs import CudaQueue, HostQueue, Queue, full_precision, host_memory
from colonnade.backends.gpu.host_tables import HostColumns, Pooling
from colonnade.backends.gpu.lanes import DeviceColumns, Lane, LanePool, Prepared, Reserved, Results
from colonnade.backends.gpu.memory import is_exhausted, refusal, said
from colonnade.backends.gpu.padding import Dependent, Proven, row_independent
from colonnade.backends.gpu.products import Products, fused
from colonnade.backends.gpu.split import columns_only, reasons_for_host, split, symbols_read
from colonnade.backends.gpu.staging import Region, StagingPlan, after
from colonnade.backends.host_runner import aligned, as_numpy, owned, storages
from colonnade.backends.sizes import DimFunction, dim_function
from colonnade.core.dims import Dim
from colonnade.errors import GraphError
from colonnade.ir.program import Program, Weights

Array = npt.NDArray[Any]
NUM_LANES = 4
NUM_LOANS = 32
"""Blocks of large outputs that callers may hold in pinned memory; beyond them outputs lie in ordinary memory."""
Mark = Callable[[str], None]
RUNS_BEFORE_CAPTURE = 2
RUNS_BEFORE_ANOTHER = 256
"""Requests of a bucket until its graph is tried again, for which the device had no memory."""


def _unmarked(part: str) -> None:
    """Nothing is timed."""


class GpuRunner:
    """Columns, one a layout, and the dense rest on a device. Facts: any thread may use it at any time.

    num_lanes: requests in flight at a time; callers beyond wait.
    independent: the proof that batches may be padded to buckets.   hosts: what the host pools of each layout.
    table_places: `device` or `host`, by table.
    """

    def __init__(
        self,
        program: Program,
        weights: Weights,
        columns: Sequence[DeviceColumns],
        *,
        device: torch.device,
        id_policy: str,
        num_lanes: int = NUM_LANES,
        independent: Callable[[Program], Proven | Dependent] = row_independent,
        queue: Callable[[], Queue] | None = None,
        hosts: Sequence[HostColumns | None] | None = None,
        table_places: Mapping[str, str] | None = None,
        copies: Copies | None = None,
    ) -> None:
        self._program = program
        self._params = weights.params
        self._columns = tuple(columns)
        self._hosts = (None,) * len(columns) if hosts is None else tuple(hosts)
        self.table_places: Mapping[str, str] = dict.fromkeys((t.name for t in program.tables), "device") | dict(
            table_places or {}
        )
        self._errors = id_policy == "error"
        params = {name: aligned(weights.params[name]) for name, _, _ in program.params}
        on_device, self._requires = split(program)
        self._on_host = reasons_for_host(on_device)
        self._rest: DensePlan | None = None
        if self._on_host:
            self._rest = DensePlan(program, params)
            self._kept = storages(self._rest.constants)
            on_device, self._requires = columns_only(program), ()
        self._dense = _dense_plan(on_device, params, device)
        self._copies = Copies(device) if copies is None else copies
        proof = independent(on_device)
        self._padded = isinstance(proof, Proven) and not proof.refusing
        self._exact = "" if self._padded else _why_exact(proof)
        batch = frozenset((proof.batch,)) if isinstance(proof, Proven) and self._padded else frozenset()
        inputs = [i for i in program.inputs if i.name in self._dense.inputs]
        counted = {str(i.shape[0]) for i in program.inputs if i.offsets is not None} - symbols_read(on_device)
        given, headers = [c.layout for c in columns], [c.header for c in columns]
        layouts = [x if host is None else host.layout for x, host in zip(given, self._hosts, strict=True)]
        self._plan = StagingPlan(program, layouts, headers, inputs, batch, frozenset(counted), given)
        outputs = program.outputs if self._rest is None else on_device.outputs
        self._outputs_of = [(o.name, o.value.name, _varying(o.shape) if self._padded else ()) for o in outputs]
        self._uncaptured = self._dense.synchronises
        self._without_room: dict[tuple[int, ...], None] = {}
        """Rows of buckets for whose graphs the device had no memory, the last time that they were tried."""
        in_host = frozenset(name for name, place in self.table_places.items() if place == "host")
        refused = self._refused = refusal(program, in_host)
        make_queue = queue or (HostQueue if device.type == "cpu" else lambda: CudaQueue(device))
        rows = [dim_function(b.rows) for b in program.buffers]
        plan = self._plan  # no reference back to here: tables are to be freed with the last request that reads them
        hosts_of = self._hosts
        self._lanes = LanePool(
            lambda: Lane(make_queue(), plan, program.buffers, rows, columns, refused, hosts_of), num_lanes
        )
        self._loans = Loans(lambda size: host_memory(device, size).numpy(), NUM_LOANS)

    @property
    def dense_inputs(self) -> frozenset[str]:
        """The inputs that the dense rest reads, and those that are outputs as they are."""
        fetched = {o.value.name for o in self._program.outputs}
        read = self._dense.inputs if self._rest is None else self._rest.inputs
        return read | (fetched & {i.name for i in self._program.inputs})

    @property
    def notes(self) -> tuple[str, ...]:
        """What costs time and could be otherwise, in words."""
        notes = [f"batches are not padded to a few sizes: {self._exact}"] if self._exact else []
        notes += [f"requests run without a CUDA graph: {why}" for why in self._uncaptured]
        if self._without_room:
            batches = ", ".join(" and ".join(map(str, rows)) for rows in sorted(self._without_room))
            why = "the device has too little memory for it now; it is tried again"
            notes.append(f"batches of up to {batches} rows run without a CUDA graph: {why}")
        return (*notes, *(f"the dense rest runs on the host: {why}" for why in self._on_host))

    def reserve(self) -> Room:
        """A lane: the request's numbers are packed where they are copied from."""
        return Reserved(self._lanes, self._plan)

    def run(self, request: Request, room: Room | None = None) -> Outcome:
        """The answer to a request, with the time of `stage`, `host columns` (if there are some), `device` and `give`.

        Errors: IdRangeError under the policy `error`; GraphError or ShapeError where the dense rest refuses it;
        OptionError where the device has no memory for it.
        """
        own = None if isinstance(room, Reserved) else Reserved(self._lanes, self._plan)
        try:
            return self._answer((own or cast(Reserved, room)).lane, request)
        except (RuntimeError, GraphError) as error:
            if not is_exhausted(error):
                raise
            raise self._refused(f"{_rows_of(request)}: {said(error.__cause__ or error)}") from error
        finally:
            if own is not None:
                own.close()

    def profile(self, request: Request) -> dict[str, float]:
        """The time of each part of a request, run piece by piece, without a graph. Units: nanoseconds."""
        own = Reserved(self._lanes, self._plan)
        lane = own.lane
        try:
            self._answer(lane, request)
            began = time.perf_counter_ns()
            prepared = lane.prepare(self._plan.bucket(request))
            prepared.staged.write(request)
            found = {"stage": float(time.perf_counter_ns() - began)}
            if prepared.pooled is not None:
                began, pooling = time.perf_counter_ns(), Pooling(len(self._hosts))
                try:
                    self._begin(pooling, prepared, request)
                finally:
                    pooling.end()
                found["host columns"] = float(time.perf_counter_ns() - began)
            marks = [("", lane.queue.mark())]

            def mark(part: str) -> None:
                marks.append((part, lane.queue.mark()))

            with full_precision():
                lane.queue.run(lambda: self._columns_run(lane, prepared, mark))
                lane.queue.run(lambda: self._rest_run(lane, prepared, mark))
            self._fetched(lane, prepared)
            marks.append(("copy out", lane.queue.mark()))
            lane.queue.wait()
            for (_, before), (part, ended) in itertools.pairwise(marks):
                found[part] = ended() - before()
            return found
        finally:
            own.close()

    def _answer(self, lane: Lane, request: Request) -> Outcome:
        began = time.perf_counter_ns()
        for check in self._requires:
            check(request.sizes)
        prepared = lane.prepare(self._plan.bucket(request))
        pooling = Pooling(len(self._hosts))
        try:
            self._begin(pooling, prepared, request)
            prepared.staged.write(request)
            staged = time.perf_counter_ns()
            self._run(lane, prepared, pooling)
            statuses, views = self._fetched(lane, prepared)
        finally:  # nothing may be under way in a lane that is given back
            try:
                pooling.end()
            finally:
                lane.queue.wait()
        answered = time.perf_counter_ns()
        zeroed = self._zeroed(request, statuses, pooling.outside)
        if self._rest is None:
            outputs = self._outputs(request, prepared, views)
        else:
            outputs = self._finished(self._rest, request, views, are_lent=views is prepared.views)
        ended = time.perf_counter_ns()
        if not prepared.replay and prepared.runs >= RUNS_BEFORE_CAPTURE:
            self._capture(lane, prepared)
        on_host = {} if prepared.pooled is None else {"host columns": pooling.nanoseconds}
        parts = {"stage": staged - began, **on_host, "device": answered - staged, "give": ended - answered}
        return Outcome(outputs, zeroed, parts)

    def _run(self, lane: Lane, prepared: Prepared, pooling: Pooling) -> None:
        """Enqueue all of a request, the end of the host's part in between."""
        if prepared.pooled is None:
            self._all(lane, prepared)
            return
        first, rest = prepared.replay or (
            lambda: self._queued(lane, lambda: self._columns_run(lane, prepared)),
            lambda: self._direct(lane, prepared),
        )
        first()
        pooling.end()
        rest()

    def _all(self, lane: Lane, prepared: Prepared) -> None:
        """Enqueue a request of which the host pools nothing."""
        if prepared.replay:
            prepared.replay[0]()
            return
        self._queued(lane, lambda: self._columns_run(lane, prepared))
        self._direct(lane, prepared)

    def _begin(self, pooling: Pooling, prepared: Prepared, request: Request) -> None:
        """Let the host's threads begin with what it pools."""
        if prepared.pooled is None:
            return
        for k, (host, packed) in enumerate(zip(self._hosts, request.packed, strict=True)):
            if host is not None:
                pooling.begin(k, host, packed, prepared.pooled.values[k])

    def _queued(self, lane: Lane, work: Callable[[], object]) -> None:
        with full_precision():
            lane.queue.run(work)

    def _direct(self, lane: Lane, prepared: Prepared) -> None:
        """Run what follows the columns piece by piece, and learn where the outputs are to lie."""

        def run() -> None:
            values = self._computed(lane, prepared)
            if prepared.results is None or self._uncaptured:
                results = _results(values, len(self._columns))
                if lane.grow_out(results.num_bytes):
                    self._columns_run(lane, prepared)  # the status words moved
                    values = self._computed(lane, prepared)
                prepared.results = results
                prepared.views = {} if results.are_large else results.views(lane.host_out)
            self._collect(lane, prepared.results, values)

        self._queued(lane, run)
        prepared.runs += 1

    def _capture(self, lane: Lane, prepared: Prepared) -> None:
        if self._uncaptured or not lane.queue.captures or 0 in prepared.regions.rows:
            return
        rows = prepared.regions.rows

        def first() -> None:
            self._columns_run(lane, prepared)

        def rest() -> None:
            self._rest_run(lane, prepared)

        def both() -> None:
            first()
            rest()

        try:
            with full_precision():
                parts = (both,) if prepared.pooled is None else (first, rest)
                prepared.replay = tuple([lane.queue.captured(part) for part in parts])
            self._without_room.pop(rows, None)
        except (RuntimeError, GraphError) as error:
            if is_exhausted(error):
                self._without_room[rows] = None
                prepared.runs = RUNS_BEFORE_CAPTURE - RUNS_BEFORE_ANOTHER
            else:
                self._uncaptured = (str(error).partition("\n")[0],)

    def _columns_run(self, lane: Lane, prepared: Prepared, mark: Mark = _unmarked) -> None:
        """Copy the request in and run the columns."""
        staged, regions = prepared.staged, prepared.regions
        with torch.inference_mode():
            statuses = lane.statuses()
            self._copies.bring(staged.host, staged.device, statuses)
            mark("copy in")
            for k, (columns, rows) in enumerate(zip(self._columns, regions.rows, strict=True)):
                if rows:
                    columns.launch(staged.sources[k], rows, prepared.buffers, statuses[k : k + 1], regions.tiles[k])
            mark("columns")

    def _rest_run(self, lane: Lane, prepared: Prepared, mark: Mark = _unmarked) -> None:
        """All that follows, but for the copy of large outputs."""
        values = self._computed(lane, prepared, mark)
        assert prepared.results is not None
        self._collect(lane, prepared.results, values)

    def _computed(self, lane: Lane, prepared: Prepared, mark: Mark = _unmarked) -> dict[str, Any]:
        """Copy in what the host pooled, and run the dense rest."""
        with torch.inference_mode():
            if prepared.pooled is not None:
                self._copies.place(prepared.pooled.host, prepared.pooled.device, prepared.pooled.moves)
                mark("copy of host columns")
            found = self._dense.run(prepared.values, prepared.regions.sizes)
            mark("dense")
        return found

    def _collect(self, lane: Lane, results: Results, values: Mapping[str, Any]) -> None:
        """Copy the outputs into one block, and that to the host where it is small."""
        block = lane.device_out.tensor
        with torch.inference_mode():
            for name, region in results.regions.items():
                region.of(block).copy_(values[name])
            if not results.are_large:
                size = results.num_bytes
                self._copies.copy(block[:size], lane.host_out[:size])

    def _fetched(self, lane: Lane, prepared: Prepared) -> tuple[Array, Mapping[str, Array | torch.Tensor]]:
        """Where the status words and outputs come to on the host; the memory of large ones belongs to this request."""
        results = prepared.results
        assert results is not None
        if not results.are_large:
            return lane.host_statuses, prepared.views
        loan = self._loans.take(results.num_bytes)
        target = torch.empty(results.num_bytes, dtype=torch.uint8) if loan is None else torch.from_numpy(loan)
        source = lane.device_out.tensor[: results.num_bytes]
        lane.queue.run(lambda: _copy(target, source, non_blocking=loan is not None))
        return target[: 8 * len(self._columns)].view(torch.int64).numpy(), results.views(target)

    def _zeroed(self, request: Request, statuses: Array, outside: Sequence[int]) -> int:
        counts = [a + b for a, b in zip(statuses.tolist(), outside, strict=True)]
        for columns, packed, count in zip(self._columns, request.packed, counts, strict=True):
            if count and self._errors:
                raise columns.diagnose(packed)
        return sum(counts)

    def _outputs(
        self, request: Request, prepared: Prepared, views: Mapping[str, Array | torch.Tensor]
    ) -> dict[str, Any]:
        """The outputs as the caller gets them."""
        results, sizes = prepared.results, request.sizes
        assert results is not None
        outputs: dict[str, Any] = {}
        for name, source, varying in self._outputs_of:
            value = views.get(name)
            if value is None:
                value = results.constants[name] if name in results.constants else self._given(source, request)
            else:
                if varying:
                    value = value[tuple([slice(size(sizes)) for size in varying])]
                if not results.are_large:
                    value = value.clone() if isinstance(value, torch.Tensor) else value.copy()
            if isinstance(value, torch.Tensor) != request.is_torch:
                value = _converted(value)
            outputs[name] = value
        return outputs

    def _finished(
        self, rest: DensePlan, request: Request, views: Mapping[str, Array | torch.Tensor], *, are_lent: bool
    ) -> dict[str, Any]:
        """The outputs where the dense rest runs on the host: the columns' buffers came back instead.

        are_lent: whether the views lie in the lane, so that no output may.
        """
        buffers = {}
        for name, _, varying in self._outputs_of:
            value = torch.as_tensor(views[name])
            buffers[name] = value[tuple([slice(size(request.sizes)) for size in varying])] if varying else value
        values = rest.run({**request.tensors, **buffers}, request.sizes)
        return owned(values, request, self._kept | storages(buffers.values() if are_lent else ()))

    def _given(self, source: str, request: Request) -> torch.Tensor | Array:
        """A copy of an input or a parameter: no device is asked for it."""
        value = request.tensors[source] if source in request.tensors else self._params[source]
        return value.clone() if isinstance(value, torch.Tensor) else np.array(value)


def _rows_of(request: Request) -> str:
    return f"{' and '.join(str(packed.rows) for packed in request.packed) or 'no'} rows"


def _why_exact(proof: Proven | Dependent) -> str:
    if isinstance(proof, Proven):
        return f"{', '.join(proof.refusing)} may refuse the rows that padding adds"
    return f"{proof.reason} ({proof.where})"


def _results(values: Mapping[str, Any], num_layouts: int) -> Results:
    """Places for the outputs after the status words."""
    regions: dict[str, Region] = {}
    constants: dict[str, Any] = {}
    end = 8 * num_layouts
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            regions[name] = region = Region(after(end), value.dtype, tuple(value.shape))
            end = region.end
        else:
            constants[name] = np.array(value)
    return Results(regions, constants, after(end))


def _varying(shape: tuple[Dim, ...]) -> tuple[DimFunction, ...]:
    """The dims up to the last that is not the same in all requests."""
    count = max((i + 1 for i, d in enumerate(shape) if not isinstance(d, int)), default=0)
    return tuple(dim_function(d) for d in shape[:count])


def _converted(value: torch.Tensor | Array) -> torch.Tensor | Array:
    """An array of a tensor, and the other way round where torch has the dtype."""
    if isinstance(value, torch.Tensor):
        return as_numpy(value)
    return value if value.dtype == object else torch.from_numpy(value)


def _copy(target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool) -> None:
    target.copy_(source, non_blocking=non_blocking)


def _dense_plan(program: Program, params: Mapping[str, torch.Tensor], device: torch.device) -> DensePlan:
    """The dense rest on a device, its products of few rows cut where that fills it."""
    if device.type != "cuda":
        return DensePlan(program, params, device)
    return DensePlan(fused(program), params, device, Products(device).ops)
