"""micro 1000, columns alone: our one launch beside torch column by column, torch.compile and FBGEMM's lookup."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.gpu import fbgemm
from benchmarks.gpu.clock import copy_bandwidth
from benchmarks.gpu.ours import ColumnsAlone, on_device, poisoned
from benchmarks.gpu.rows import Check, Found, timed
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.skeleton import fill, first, skeleton
from colonnade.core.batch import Packed
from colonnade.core.expr import Apply, Field
from colonnade.errors import ShapeError
from colonnade.ir.program import Program, Weights
from colonnade.ops.bucketize import Bucketize
from colonnade.testing.rows import Row
from colonnade.testing.timing import Call, Timing

CASE = "micro1000"
OURS, AGAIN, EAGER, GRAPH, COMPILED, LOOKUP, FILL = (
    "colonnade",
    "colonnade, one batch again and again",
    "torch, column by column",
    "the same in a CUDA graph",
    "torch.compile",
    "FBGEMM, lookup only, in a CUDA graph",
    "bare fill of the output",
)
REFERENCE = "numpy searchsorted"
SET_BYTES = 400_000_000
"""What the rotating sets hold together: several times what a cache holds."""
MOST_SETS = 24
COMPILED_COLUMNS = 100
NO_STRINGS = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Micro:
    """Bucketized columns in the order of their slots, on the device, for the sides that are not ours.

    Facts: every column is `bucketize` of a field of width 1, looked up and written to one slot of one buffer.
    """

    starts: tuple[int, ...]
    bounds: tuple[torch.Tensor, ...]
    tables: tuple[torch.Tensor, ...]

    @staticmethod
    def of(program: Program, weights: Weights, columns: ColumnsAlone, device: torch.device) -> Micro:
        """Errors: ShapeError for a column of another form."""
        starts, bounds, tables = [], [], []
        for column in sorted(program.columns, key=lambda c: c.slots[0].offset):
            ids = column.ids
            if not isinstance(ids, Apply) or not isinstance(ids.op, Bucketize) or not isinstance(ids.args[0], Field):
                raise ShapeError("a bucketized column", where=column.name, got=repr(ids))
            starts.append(columns.layout.places[ids.args[0].name].start)
            bounds.append(torch.from_numpy(ids.op.boundaries.array.copy()).to(device))
            tables.append(torch.from_numpy(weights.tables[str(column.table)]).to(device))
        return Micro(tuple(starts), tuple(bounds), tuple(tables))

    def fields(self, values: torch.Tensor) -> list[torch.Tensor]:
        """The values of each column from a packed buffer [C * B]."""
        rows = values.view(-1, len(values) // len(self.starts))
        return [rows[start] for start in self.starts]

    def ids(self, packed: Packed) -> NDArray[np.int64]:
        """[C, B], by numpy on the host."""
        rows = packed.buffers["float32"].reshape(-1, packed.rows)
        return np.stack(
            [
                np.searchsorted(bounds.cpu().numpy(), rows[start], side="right").astype(np.int64)
                for start, bounds in zip(self.starts, self.bounds, strict=True)
            ]
        )

    def reference(self, ids: torch.Tensor) -> torch.Tensor:
        """[B, sum of widths] of ids [C, B]."""
        return torch.cat([table[i] for table, i in zip(self.tables, ids, strict=True)], 1)


def one_by_one(
    fields: Sequence[torch.Tensor], bounds: Sequence[torch.Tensor], tables: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Every column by itself in torch, and one concat."""
    parts = [
        functional.embedding(torch.bucketize(x, b, right=True), t)
        for x, b, t in zip(fields, bounds, tables, strict=True)
    ]
    return torch.cat(parts, 1)


def random_batch(columns: ColumnsAlone, rows: int, seed: int) -> Packed:
    """Floats over the boundaries and past either end."""
    width = columns.layout.widths["float32"]
    values = np.random.default_rng(seed).uniform(-25, 525, rows * width).astype(np.float32)
    return Packed(rows, {"float32": values}, np.empty(0, np.uint8), NO_STRINGS)


def equal(reference: str, got: torch.Tensor, want: torch.Tensor) -> Check:
    """Every element compared; bits must be equal, and NaN equals nothing."""
    if got.shape != want.shape:
        return Check(reference, want.numel(), want.numel(), note=f"shape {list(got.shape)}")
    outside = int((got != want).sum())
    worst = float((got - want).abs().nan_to_num(nan=float("inf")).max()) if outside else 0.0
    return Check(reference, want.numel(), outside, min(worst, 3e38))


@dataclass
class _Sets:
    """Rotating batches of one size, with what every side needs of them."""

    packed: list[Packed]
    values: list[torch.Tensor]
    ids: list[torch.Tensor]
    outputs: list[torch.Tensor]

    @staticmethod
    def of(columns: ColumnsAlone, micro: Micro, rows: int, setting: Setting) -> _Sets:
        width = sum(t.shape[1] for t in micro.tables)
        size = 4 * rows * (width + len(micro.starts))
        count = 2 if setting.dry else max(2, min(MOST_SETS, -(-SET_BYTES // size)))
        packed = [random_batch(columns, rows, seed) for seed in range(count)]
        return _Sets(
            packed,
            [on_device(p.buffers["float32"], setting.device) for p in packed],
            [on_device(micro.ids(p), setting.device) for p in packed],
            [poisoned(rows, width, setting.device) for _ in range(count)],
        )


def columns_case(setting: Setting) -> Iterator[Found]:
    """All 1,000 columns at three batch sizes."""
    program = skeleton(CASE)
    weights = fill(program, 0)
    began = time.perf_counter()
    columns = ColumnsAlone(program, weights, setting.target)
    seconds = time.perf_counter() - began
    micro = Micro.of(program, weights, columns, setting.device)
    for rows in setting.sizes(256, 2048, 8192):
        setting.say(f"{CASE}: columns, batch {rows}")
        yield from _measured(setting, columns, micro, rows, {"compile s": seconds})


def _measured(
    setting: Setting, columns: ColumnsAlone, micro: Micro, rows: int, facts: Mapping[str, float]
) -> Iterator[Found]:
    sets = _Sets.of(columns, micro, rows, setting)
    want = [micro.reference(ids) for ids in sets.ids]
    clock = setting.clock
    few = want[:2]
    bound = [columns.bind(packed, setting.device) for packed in sets.packed]
    checks: dict[str, Check] = {}
    times: dict[str, Callable[[], Timing]] = {}

    checks[OURS] = _checked([b.call for b in bound], lambda i: next(iter(bound[i].buffers.values())), want)
    times[OURS] = lambda: clock.graph([b.call for b in bound])
    checks[AGAIN] = checks[OURS]
    times[AGAIN] = lambda: clock.graph([bound[0].call])

    results: list[torch.Tensor] = [want[0][:0]] * len(few)
    singly = [_storing(results, i, micro, sets.values[i]) for i in range(len(few))]
    checks[EAGER] = checks[GRAPH] = _checked(singly, lambda i: results[i], few)
    times[EAGER] = lambda: clock.events(singly)
    times[GRAPH] = lambda: clock.graph(singly)

    lookup = fbgemm.one_row_lookup(micro.tables, sets.ids)
    if lookup is not None:
        checks[LOOKUP] = _checked(lookup.calls, lambda i: lookup.outputs[i], want)
        times[LOOKUP] = lambda: clock.graph(lookup.calls)
    sides, refused = timed(CASE, "columns", rows, checks, times)
    bare = clock.graph([_filling(out) for out in sets.outputs])
    yield from refused
    yield Row(
        CASE, "columns", rows, sides, checks, _floor(micro, sets, setting.device), {FILL: bare},
        {**facts, "sets": len(sets.packed)},
    )  # fmt: skip


def _checked(calls: Sequence[Call], output: Callable[[int], torch.Tensor], want: Sequence[torch.Tensor]) -> Check:
    """Every call made once, and what it gave compared."""
    found = []
    for i, (call, expected) in enumerate(zip(calls, want, strict=True)):
        call()
        found.append(equal(REFERENCE, output(i), expected))
    return Check(
        REFERENCE,
        sum(c.elements for c in found),
        sum(c.outside for c in found),
        max(c.worst for c in found),
        next((c.note for c in found if c.note), ""),
    )


def _storing(results: list[torch.Tensor], i: int, micro: Micro, values: torch.Tensor) -> Call:
    fields = micro.fields(values)

    def call() -> None:
        results[i] = one_by_one(fields, micro.bounds, micro.tables)

    return call


def _filling(out: torch.Tensor) -> Call:
    return lambda: out.fill_(1.0)


def _floor(micro: Micro, sets: _Sets, device: torch.device) -> dict[str, float]:
    """Values read, distinct table rows read, output written, once each. Units: bytes, bytes/s, seconds."""
    rows = sum(len(torch.unique(i)) * t.shape[1] * 4 for i, t in zip(sets.ids[0], micro.tables, strict=True))
    moved = sets.values[0].nbytes + rows + sets.outputs[0].nbytes
    bandwidth = copy_bandwidth(device)
    return {"bytes": moved, "bytes_per_second": bandwidth, "seconds": moved / bandwidth}


def compile_case(setting: Setting) -> Iterator[Found]:
    """torch.compile over the first 100 columns, beside ours over the same columns."""
    program = first(skeleton(CASE), 4 if setting.dry else COMPILED_COLUMNS)
    weights = fill(program, 0)
    columns = ColumnsAlone(program, weights, setting.target)
    micro = Micro.of(program, weights, columns, setting.device)
    # Without a C++ compiler torch.compile has no code generator on the host, so dry runs leave it out.
    backend = "eager" if setting.dry else "inductor"
    compiled = torch.compile(one_by_one, backend=backend, fullgraph=True, dynamic=False)
    for rows in setting.sizes(2048)[:1]:
        setting.say(f"{CASE}: torch.compile, batch {rows}")
        sets = _Sets.of(columns, micro, rows, setting)
        want = [micro.reference(ids) for ids in sets.ids]
        bound = [columns.bind(packed, setting.device) for packed in sets.packed]
        results = [want[0][:0]] * len(want)

        def calling(i: int, fields: list[torch.Tensor], results: list[torch.Tensor] = results) -> Call:
            def call() -> None:
                results[i] = compiled(fields, micro.bounds, micro.tables)

            return call

        calls = [calling(i, micro.fields(values)) for i, values in enumerate(sets.values)]
        began = time.perf_counter()
        calls[0]()
        facts = {"torch.compile s": time.perf_counter() - began, "columns": len(micro.starts), "backend": backend}
        checks = {
            OURS: _checked([b.call for b in bound], lambda i: next(iter(bound[i].buffers.values())), want),  # noqa: B023
            COMPILED: _checked(calls, lambda i: results[i], want),  # noqa: B023
        }
        in_graph = f"{COMPILED}, in a CUDA graph"
        checks[in_graph] = checks[COMPILED]
        clock = setting.clock
        sides, refused = timed(
            CASE,
            "compile",
            rows,
            checks,
            {
                OURS: lambda: clock.graph([b.call for b in bound]),  # noqa: B023
                COMPILED: lambda: clock.events(calls),  # noqa: B023
                in_graph: lambda: clock.graph(calls),  # noqa: B023
            },
        )
        yield from refused
        yield Row(CASE, "compile", rows, sides, checks, _floor(micro, sets, setting.device), facts=facts)
