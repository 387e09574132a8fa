"""Ragged, skewed columns: hundreds of sums over rows of a table, lengths and ids by power laws.

Three workloads of the shape of public recommendation models: features, tables, batch, dims. Sides: our one launch,
FBGEMM's table-batched lookup, torch with one `embedding_bag` a feature.

Legend: F features, T tables, B batch rows, N ids of all features, W width of the output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.gpu import fbgemm
from benchmarks.gpu.clock import copy_bandwidth
from benchmarks.gpu.ours import ColumnsAlone, on_device
from benchmarks.gpu.rows import Check, Found, timed
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.skeleton import fill
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Output, Program, Ref, Weights
from colonnade.ir.table import Table
from colonnade.testing.compare import EPS, POOLED_FACTOR
from colonnade.testing.rows import Row
from colonnade.testing.timing import Call, Timing

Ints = NDArray[np.int64]

CASE = "ragged"
OURS, LOOKUP, EAGER, GRAPH = (
    "colonnade",
    "FBGEMM, in a CUDA graph",
    "torch, one embedding_bag a feature",
    "the same in a CUDA graph",
)
REFERENCE = "torch float64"
BUFFER = "columns"
SETS = 2
"""Batches that take turns; the tables alone are a multiple of any cache."""
FEW_RUNS = 7


@dataclass(frozen=True)
class Shape:
    """A workload's sizes.   sequences: the share of features of more than one id a row.   longest: of a row."""

    name: str
    features: int
    tables: int
    batch: int
    dims: tuple[int, ...]
    rows: int = 50_000
    longest: int = 10_000
    sequences: float = 0.2


SHAPES = (
    Shape("ad", 879, 519, 1200, (8, 16, 32, 64, 128)),
    Shape("search", 589, 398, 256, (4, 8, 16, 32, 64, 128)),
    Shape("lazada", 367, 73, 1024, (4, 8, 16, 32, 64, 128, 256, 416)),
)
DRY = Shape("tiny", 12, 7, 5, (4, 8, 20), rows=100, longest=50, sequences=0.5)


@dataclass(frozen=True)
class Batch:
    """lengths: [F, B].   ids: [N], feature by feature.   offsets: [F * B + 1] into ids."""

    lengths: Ints
    ids: Ints
    offsets: Ints

    def feature(self, f: int) -> tuple[Ints, Ints]:
        """A feature's ids, and its own offsets [B + 1]."""
        size = self.lengths.shape[1]
        ends = self.offsets[f * size : (f + 1) * size + 1]
        return self.ids[ends[0] : ends[-1]], ends - ends[0]


@dataclass(frozen=True)
class Workload:
    """Which table each feature looks up (nondecreasing), each table's dim, and which features are sequences."""

    shape: Shape
    feature_tables: tuple[int, ...]
    table_dims: tuple[int, ...]
    is_sequence: tuple[bool, ...]

    @staticmethod
    def of(shape: Shape, seed: int = 0) -> Workload:
        """Every table has a feature; the rest are spread at random."""
        rng = np.random.default_rng(seed)
        more = rng.integers(0, shape.tables, shape.features - shape.tables)
        tables = np.sort(np.concatenate([np.arange(shape.tables), more]))
        return Workload(
            shape,
            tuple(int(t) for t in tables),
            tuple(int(d) for d in rng.choice(shape.dims, shape.tables)),
            tuple(bool(s) for s in rng.random(shape.features) < shape.sequences),
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """The embedding_dim of each feature."""
        return tuple(self.table_dims[t] for t in self.feature_tables)

    def batch(self, seed: int) -> Batch:
        """One id a row, or for sequences a power law of lengths with some empty rows; few ids are most of all."""
        shape, rng = self.shape, np.random.default_rng([seed, 1])
        lengths = np.ones((shape.features, shape.batch), np.int64)
        for f in np.flatnonzero(self.is_sequence):
            drawn = np.minimum(rng.pareto(1.5, shape.batch) * 17 + 1, shape.longest).astype(np.int64)
            lengths[f] = np.where(rng.random(shape.batch) < 0.05, 0, drawn)
        rank = np.minimum((1 - rng.random(int(lengths.sum()))) ** -1.1, 1e9).astype(np.int64)
        offsets = np.zeros(lengths.size + 1, np.int64)
        np.cumsum(lengths.reshape(-1), out=offsets[1:])
        return Batch(lengths, rank * 2654435761 % shape.rows, offsets)

    def program(self) -> Program:
        """A column a feature, pooled by sum into one buffer; sequences are ragged inputs with offsets of their own."""
        rows = dims.symbol("B")
        inputs: list[Input] = []
        columns: list[Column] = []
        offset = 0
        for f, (table, width) in enumerate(zip(self.feature_tables, self.widths, strict=True)):
            if self.is_sequence[f]:
                inputs.append(Input(f"f{f}", "int64", (dims.symbol(f"N{f}"),), offsets=f"o{f}"))
                inputs.append(Input(f"o{f}", "int64", (dims.add(rows, 1),)))
            else:
                inputs.append(Input(f"f{f}", "int64", (rows, 1)))
            columns.append(Column(f"c{f}", Field(f"f{f}"), f"t{table}", slots=(Slot(BUFFER, offset, width),)))
            offset += width
        return Program(
            inputs=tuple(inputs),
            tables=tuple(Table(f"t{t}", self.shape.rows, dim) for t, dim in enumerate(self.table_dims)),
            columns=tuple(columns),
            buffers=(Buffer(BUFFER, rows, offset),),
            dense=(),
            outputs=(Output(BUFFER, Ref(BUFFER), "float32", (rows, offset)),),
        )

    def feed(self, batch: Batch) -> dict[str, Ints]:
        """The request of a batch."""
        found: dict[str, Ints] = {}
        for f in range(self.shape.features):
            ids, offsets = batch.feature(f)
            if self.is_sequence[f]:
                found |= {f"f{f}": ids, f"o{f}": offsets}
            else:
                found[f"f{f}"] = ids.reshape(-1, 1)
        return found

    def moved(self, batch: Batch) -> int:
        """A row a id, the ids, and the output. Units: bytes."""
        per_feature = batch.lengths.sum(1)
        gathered = sum(int(n) * w * 4 for n, w in zip(per_feature, self.widths, strict=True))
        return gathered + batch.ids.nbytes + self.shape.batch * sum(self.widths) * 4


@dataclass(frozen=True)
class _Feature:
    """One feature of one batch on the device."""

    ids: torch.Tensor
    starts: torch.Tensor
    lengths: torch.Tensor


class _Torch:
    """The workload in torch: tables on the device, one `embedding_bag` a feature."""

    def __init__(self, workload: Workload, weights: Weights, batches: Sequence[Batch], device: torch.device) -> None:
        self.workload = workload
        self.device = device
        self.tables = [torch.from_numpy(weights.tables[f"t{t}"]).to(device) for t in range(len(workload.table_dims))]
        self.features = [[self._feature(batch, f) for f in range(workload.shape.features)] for batch in batches]
        self.results: list[torch.Tensor] = [torch.empty(0)] * len(batches)

    def _feature(self, batch: Batch, f: int) -> _Feature:
        ids, offsets = batch.feature(f)
        return _Feature(*(on_device(x, self.device) for x in (ids, offsets[:-1], batch.lengths[f])))

    def calls(self) -> list[Call]:
        """One a batch; the output stays in `results`."""
        return [self._call(i) for i in range(len(self.features))]

    def _call(self, i: int) -> Call:
        def call() -> None:
            with torch.no_grad():
                bags = [self._bag(x, self._table(f)) for f, x in enumerate(self.features[i])]
                self.results[i] = torch.cat(bags, 1)

        return call

    def _table(self, f: int) -> torch.Tensor:
        return self.tables[self.workload.feature_tables[f]]

    def _bag(self, x: _Feature, table: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(x.ids, table, x.starts, mode="sum")

    def check(self, i: int, got: torch.Tensor) -> Check:
        """Each element against float64: |err| <= 4 * eps * n * sum |e|, single rows equal; NaN never passes."""
        outside = elements = at = 0
        worst = 0.0
        if got.shape != (self.workload.shape.batch, sum(self.workload.widths)):
            return Check(REFERENCE, 1, 1, note=f"shape {list(got.shape)}")
        for f, x in enumerate(self.features[i]):
            table = self._table(f)
            mine = got[:, at : at + table.shape[1]].double()
            at += table.shape[1]
            exact = self._bag(x, table.double())
            counts = x.lengths[:, None]
            allowed = POOLED_FACTOR * EPS * counts * self._bag(x, table.double().abs()) * (counts > 1)
            error = (mine - exact).abs()
            outside += int((~(error <= allowed)).sum())
            elements += error.numel()
            worst = max(worst, float(error.nan_to_num(nan=3e38).max()))
        return Check(REFERENCE, elements, outside, worst)


def case(setting: Setting) -> Iterator[Found]:
    """Every workload."""
    shapes = (DRY,) if setting.dry else SHAPES
    for shape in shapes:
        if setting.batches:
            shape = replace(shape, batch=setting.batches[0])
        yield from _measured(setting, Workload.of(shape))


def _measured(setting: Setting, workload: Workload) -> Iterator[Found]:
    shape = workload.shape
    setting.say(f"{CASE}: {shape.name}: fill and compile")
    program = workload.program()
    weights = fill(program, 0, setting.device)
    batches = [workload.batch(seed) for seed in range(SETS)]
    began = time.perf_counter()
    columns = ColumnsAlone(program, weights, setting.target)
    seconds = time.perf_counter() - began
    bound = [columns.bind(columns.packed(workload.feed(batch)), setting.device) for batch in batches]
    theirs = _Torch(workload, weights, batches, setting.device)
    lookup = fbgemm.ragged_lookup(
        theirs.tables, workload.feature_tables, [_flat(batch, setting.device) for batch in batches]
    )
    setting.say(f"{CASE}: {shape.name}: check and time")
    calls = theirs.calls()
    checks = {
        OURS: _checked(theirs, [b.call for b in bound], lambda i: bound[i].buffers[BUFFER]),
        EAGER: _checked(theirs, calls, lambda i: theirs.results[i]),
    }
    checks[GRAPH] = checks[EAGER]
    clock, slow = setting.clock, replace(setting, runs=min(setting.runs, FEW_RUNS)).clock
    times: dict[str, Callable[[], Timing]] = {
        OURS: lambda: clock.graph([b.call for b in bound]),
        EAGER: lambda: slow.events(calls),
        GRAPH: lambda: slow.graph(calls),
    }
    if lookup is not None:
        checks[LOOKUP] = _checked(theirs, lookup.calls, lambda i: lookup.outputs[i])
        times[LOOKUP] = lambda: clock.graph(lookup.calls)
    sides, refused = timed(CASE, shape.name, shape.batch, checks, times)
    yield from refused
    yield Row(
        CASE,
        shape.name,
        shape.batch,
        sides,
        checks,
        _floor(workload, batches[0], setting.device),
        facts=_facts(workload, batches[0], sides, seconds),
    )


def _checked(theirs: _Torch, calls: Sequence[Call], output: Callable[[int], torch.Tensor]) -> Check:
    found = []
    for i, call in enumerate(calls):
        call()
        found.append(theirs.check(i, output(i)))
    return Check(
        REFERENCE,
        sum(c.elements for c in found),
        sum(c.outside for c in found),
        max(c.worst for c in found),
        next((c.note for c in found if c.note), ""),
    )


def _flat(batch: Batch, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return on_device(batch.ids, device), on_device(batch.offsets, device)


def _floor(workload: Workload, batch: Batch, device: torch.device) -> dict[str, float]:
    moved, bandwidth = workload.moved(batch), copy_bandwidth(device)
    return {"bytes": moved, "bytes_per_second": bandwidth, "seconds": moved / bandwidth}


def _facts(workload: Workload, batch: Batch, sides: Mapping[str, Timing], seconds: float) -> dict[str, float | int]:
    shape = workload.shape
    found: dict[str, float | int] = {
        "features": shape.features,
        "tables": shape.tables,
        "rows a table": shape.rows,
        "ids": len(batch.ids),
        "longest": int(batch.lengths.max()),
        "compile s": seconds,
    }
    for side in (OURS, LOOKUP):
        if side in sides:
            found[f"GB/s {side}"] = workload.moved(batch) / sides[side].p50 / 1e9
    return found
