"""Whole training steps on a device, from fields that lie there to updated rows, beside FBGEMM and torch.

Ours transforms, numbers the distinct ids, finds them in tables that grow, gathers, pools, goes back, and updates by
Adagrad. The others have ids ready as numbers of dense tables that hold just the rows of these batches: FBGEMM its fused
backward with exact Adagrad, and a weight for every id as some features have weights; torch an `embedding_bag` for each
feature with sparse gradients and its Adagrad.

Legend: F features, B batch rows, N ids of all features, D embedding_dim, W width of all outputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

from benchmarks.gpu import fbgemm
from benchmarks.gpu.clock import copy_bandwidth
from benchmarks.gpu.rows import Check, Found, timed
from benchmarks.gpu.setting import Case, Setting
from colonnade.core.ragged import Ragged
from colonnade.frontends.feature import Embedding
from colonnade.frontends.feature_set import FeatureSet
from colonnade.testing.compare import POOLED_FACTOR
from colonnade.testing.rows import Row
from colonnade.testing.timing import Call, Timing
from colonnade.testing.workloads import WORKLOADS, Workload, batch_of, features_of
from colonnade.train.feature_engine import FeatureEngine
from colonnade.train.features.gpu import DeviceBatch
from colonnade.train.features.transformed import Transformed
from colonnade.train.ids import PackedIds
from colonnade.train.initializers import Uniform
from colonnade.train.optimizers import Adagrad

CASE = "step"
OURS, FORWARD, FUSED, LOOKUP, TORCH = (
    "colonnade",
    "colonnade, forward alone",
    "FBGEMM, ids ready",
    "FBGEMM, ids ready, forward alone",
    "torch, ids ready",
)
REFERENCE = "torch embedding_bag and Adagrad"
OUTPUT = "deep"
EPS32 = torch.finfo(torch.float32).eps
RATE, EPS = 0.1, 1e-8
SETS = 3
FEW_RUNS = 5
DRY = Workload("tiny", 20, 7, 5, (4, 8, 20))


@dataclass(frozen=True)
class _Feature:
    """An embedded feature of one batch, its ids as numbers of a dense table's rows."""

    table: str
    numbers: torch.Tensor
    ids: Ragged


@dataclass(frozen=True)
class _Ready:
    """What the others begin with. rows: of each table, the ids of all batches, in the order of their numbers."""

    tables: dict[str, torch.Tensor]
    rows: dict[str, torch.Tensor]
    batches: list[list[_Feature]]


class _Ours:
    """An engine, and batches that lie where it does."""

    def __init__(self, features: FeatureSet, batches: Sequence[Mapping[str, Any]], device: torch.device) -> None:
        names = [f.name for f in features.features if f.embedding is not None]
        made = FeatureEngine(
            features, {OUTPUT: names}, optimizer=Adagrad(RATE, eps=EPS), initializer=Uniform(-0.05, 0.05)
        )
        self.engine = made.to(device)
        self._transform = self.engine.device_transform()
        self.batches = [batch if self._transform is None else self._transform.put(batch) for batch in batches]

    def transformed(self, k: int) -> Transformed:
        """All features of a batch, each by itself."""
        if self._transform is None:
            batch = self.batches[k]
            assert not isinstance(batch, DeviceBatch)
            return self.engine.transform(batch)
        return self._transform(self.batches[k]).wait()

    def packed(self, k: int) -> PackedIds:
        """What a lookup begins with."""
        return self.engine.packed(self.batches[k])[0]

    def forward(self, k: int) -> torch.Tensor:
        """`[B, W]`."""
        found: torch.Tensor = self.engine(self.batches[k])[OUTPUT]
        return found

    def step(self, k: int, grad: torch.Tensor) -> None:
        """Learn from a batch."""
        self.forward(k).backward(grad)
        self.engine.step()

    def parts(self, k: int, grad: torch.Tensor, wait: Callable[[], None]) -> dict[str, float]:
        """The time of each part of a step, each waited for. Units: seconds."""
        found: dict[str, float] = {}

        def timed_part(name: str, call: Callable[[], Any]) -> Any:
            began = time.perf_counter()
            made = call()
            wait()
            found[name] = time.perf_counter() - began
            return made

        wait()
        ids = timed_part("transform", lambda: self.packed(k))
        output = timed_part("lookup and pooling", lambda: self.engine.embedding.lookup(ids)[OUTPUT])
        timed_part("backward", lambda: output.backward(grad))
        timed_part("update", self.engine.step)
        return found


def _ready(ours: _Ours, features: FeatureSet) -> _Ready:
    """The same ids as numbers of dense tables."""
    embedded = [(f.name, f.embedding) for f in features.features if f.embedding is not None]
    found = [ours.transformed(k).sparse for k in range(len(ours.batches))]
    asked: dict[str, list[torch.Tensor]] = {}
    for name, embedding in embedded:
        asked.setdefault(embedding.table, []).extend(x[name].values for x in found)
    rows = {table: torch.unique(torch.cat(parts)) for table, parts in asked.items()}
    tables = {table: ours.engine.embedding.table(table).read(ids)[0].to(ids.device) for table, ids in rows.items()}
    batches = [
        [_Feature(e.table, torch.searchsorted(rows[e.table], x[name].values), x[name]) for name, e in embedded]
        for x in found
    ]
    return _Ready(tables, rows, batches)


class _Torch:
    """One `embedding_bag` a feature."""

    def __init__(self, ready: _Ready) -> None:
        self.batches = ready.batches
        self.tables = {name: torch.nn.Parameter(values.clone()) for name, values in ready.tables.items()}
        self.optimizer = torch.optim.Adagrad(list(self.tables.values()), lr=RATE, eps=EPS)

    def forward(self, k: int) -> torch.Tensor:
        """`[B, W]`."""
        return torch.cat([self._pooled(x) for x in self.batches[k]], 1)

    def _pooled(self, x: _Feature) -> torch.Tensor:
        return functional.embedding_bag(
            x.numbers,
            self.tables[x.table],
            x.ids.offsets[0][:-1],
            mode="sum",
            sparse=True,
            per_sample_weights=x.ids.weights,
        )

    def allowed(self, k: int, moved: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """How far sums in another order may be from `forward`, `[B, W]`: |error| <= 4 eps n sum |w e| + sum |w| m.

        moved: of each table how far its values may be from those here, m.
        """
        parts = []
        for x in self.batches[k]:
            n = x.ids.offsets[0].diff()[:, None]
            sizes = _pooled_sizes(x, self.tables[x.table].detach().abs())
            parts.append(POOLED_FACTOR * EPS32 * n * sizes + _pooled_sizes(x, moved[x.table]))
        return torch.cat(parts, 1)

    def moved(self, k: int, grad: torch.Tensor) -> dict[str, torch.Tensor]:
        """How far values may be apart after a first step by gradients that are added up in two orders.

        A gradient g of n addends of size a in all may be off by d = 4 eps n a; then a first step of Adagrad, which is
        rate g / |g|, is off by rate min(2, 2 d / |g|).
        """
        sizes = {name: torch.zeros_like(table) for name, table in self.tables.items()}
        sums, times = ({n: torch.zeros_like(t) for n, t in sizes.items()} for _ in range(2))
        at = 0
        for x in self.batches[k]:
            width = self.tables[x.table].shape[1]
            own = grad[:, at : at + width].repeat_interleave(x.ids.offsets[0].diff(), 0)
            own = own if x.ids.weights is None else own * x.ids.weights[:, None]
            at += width
            for into, addends in ((sums, own), (sizes, own.abs()), (times, torch.ones_like(own))):
                into[x.table].index_add_(0, x.numbers, addends)
        made = {}
        for name, g in sums.items():
            off = POOLED_FACTOR * EPS32 * times[name] * sizes[name]
            far = RATE * torch.where(off > 0, (2 * off / g.abs()).clamp(max=2), 0)
            made[name] = far + POOLED_FACTOR * EPS32 * (self.tables[name].detach().abs() + RATE)
        return made

    def step(self, k: int, grad: torch.Tensor) -> None:
        """Learn from a batch."""
        self.forward(k).backward(grad)
        with torch.sparse.check_sparse_tensor_invariants(False):  # torch warns where nothing is said
            self.optimizer.step()
        self.optimizer.zero_grad()


def _pooled_sizes(x: _Feature, rows: torch.Tensor) -> torch.Tensor:
    """`sum |w| rows`, `[B, D]`."""
    weights = None if x.ids.weights is None else x.ids.weights.abs()
    return functional.embedding_bag(x.numbers, rows, x.ids.offsets[0][:-1], mode="sum", per_sample_weights=weights)


def _fbgemm(ready: _Ready, features: FeatureSet, device: torch.device) -> fbgemm.Training | None:
    """FBGEMM's module with the same rows, its features in the order of their tables."""
    embeddings: list[Embedding] = [f.embedding for f in features.features if f.embedding is not None]
    names = list(ready.tables)
    order = sorted(range(len(embeddings)), key=lambda f: names.index(embeddings[f].table))
    tables = [ready.tables[name] for name in names]
    sets = [_flat([batch[f] for f in order]) for batch in ready.batches]
    return fbgemm.training(
        tables,
        [names.index(embeddings[f].table) for f in order],
        sets,
        _places([embeddings[f].embedding_dim for f in range(len(embeddings))], order, device),
        rate=RATE,
        eps=EPS,
    )


def _flat(batch: Sequence[_Feature]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids [N], offsets [F * B + 1], weights [N]."""
    lengths = torch.cat([x.ids.offsets[0].diff() for x in batch])
    weights = [
        torch.ones_like(x.numbers, dtype=torch.float32) if x.ids.weights is None else x.ids.weights for x in batch
    ]
    offsets = functional.pad(lengths.cumsum(0), (1, 0))
    return torch.cat([x.numbers for x in batch]), offsets, torch.cat(weights)


def _places(dims: Sequence[int], order: Sequence[int], device: torch.device) -> torch.Tensor:
    """Of each column of our output, the column of one whose features are in another order."""
    starts, at = {}, 0
    for f in order:
        starts[f], at = at, at + dims[f]
    parts = [torch.arange(starts[f], starts[f] + dims[f]) for f in range(len(dims))]
    return torch.cat(parts).to(device)


def case(setting: Setting) -> Iterator[Found]:
    """Every workload, small batches first."""
    for size in (DRY,) if setting.dry else sorted(WORKLOADS.values(), key=lambda size: size.batch):
        yield from _measured(setting, size)


def case_of(name: str) -> Case:
    """One workload: all of them take longer than a device may be lent for."""

    def run(setting: Setting) -> Iterator[Found]:
        yield from _measured(setting, DRY if setting.dry else WORKLOADS[name])

    return run


def _measured(setting: Setting, usual: Workload) -> Iterator[Found]:
    size = replace(usual, batch=setting.batches[0]) if setting.batches else usual
    setting.say(f"{CASE}: {size.name}: batches and tables")
    features = features_of(size)
    ours = _Ours(features, [batch_of(features, size.batch, seed) for seed in range(SETS)], setting.device)
    with torch.no_grad():
        widths = [ours.forward(k).shape for k in range(SETS)]
    grads = [_drawn(shape, k, setting.device) for k, shape in enumerate(widths)]
    ready = _ready(ours, features)
    theirs, fused = _Torch(ready), _fbgemm(ready, features, setting.device)
    setting.say(f"{CASE}: {size.name}: check and time")
    checks = _checks(ours, theirs, fused, grads)
    clock, slow = setting.clock, replace(setting, runs=min(setting.runs, FEW_RUNS)).clock
    times: dict[str, Callable[[], Timing]] = {
        FORWARD: lambda: clock.events([_without_grad(ours.forward, k) for k in range(SETS)]),
        OURS: lambda: clock.events([_bound(ours.step, k, grads[k]) for k in range(SETS)]),
        TORCH: lambda: slow.events([_bound(theirs.step, k, grads[k]) for k in range(SETS)]),
    }
    if fused is not None:
        times[LOOKUP] = lambda: clock.events([_without_grad(fused.forward, k) for k in range(SETS)])
        times[FUSED] = lambda: clock.events([_bound(fused.step, k, grads[k]) for k in range(SETS)])
    sides, refused = timed(CASE, size.name, size.batch, checks, times)
    yield from refused
    facts = _facts(ours, ready, size) | _split(ours, grads, setting)
    yield Row(CASE, size.name, size.batch, sides, checks, _floor(ready, grads[0], setting.device), facts=facts)


def _drawn(shape: torch.Size, seed: int, device: torch.device) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


def _bound(step: Callable[[int, torch.Tensor], None], k: int, grad: torch.Tensor) -> Call:
    return lambda: step(k, grad)


def _without_grad(forward: Callable[[int], torch.Tensor], k: int) -> Call:
    def call() -> None:
        with torch.no_grad():
            forward(k)

    return call


def _checks(
    ours: _Ours, theirs: _Torch, fused: fbgemm.Training | None, grads: Sequence[torch.Tensor]
) -> dict[str, Check]:
    """The outputs of all sides before a step and after one, each against torch's."""
    found = {name: Check(REFERENCE, 0, 0) for name in ((OURS,) if fused is None else (OURS, FUSED))}
    moved = {name: torch.zeros_like(table) for name, table in theirs.tables.items()}
    for is_first in (True, False):
        with torch.no_grad():
            wanted, allowed = theirs.forward(0), theirs.allowed(0, moved)
            found[OURS] = _compared(found[OURS], ours.forward(0), wanted, allowed)
            if fused is not None:
                found[FUSED] = _compared(found[FUSED], fused.ordered(fused.forward(0)), wanted, allowed)
            del wanted, allowed
            moved = theirs.moved(0, grads[0]) if is_first else moved
        ours.step(0, grads[0])
        theirs.step(0, grads[0])
        if fused is not None:
            fused.step(0, fused.reordered(grads[0]))
    found[FORWARD], found[TORCH] = found[OURS], Check("itself", 1, 0)
    if FUSED in found:
        found[LOOKUP] = found[FUSED]
    return found


def _compared(so_far: Check, got: torch.Tensor, want: torch.Tensor, allowed: torch.Tensor) -> Check:
    error = (got - want).abs()
    outside = so_far.outside + int((~(error <= allowed)).sum())
    worst = max(so_far.worst, float(error.nan_to_num(nan=3e38).max()))
    return Check(REFERENCE, so_far.elements + error.numel(), outside, worst)


def _facts(ours: _Ours, ready: _Ready, size: Workload) -> dict[str, float | int]:
    batch = ready.batches[0]
    distinct = sum(
        len(torch.unique(torch.cat([x.numbers for x in batch if x.table == table]))) for table in ready.tables
    )
    return {
        "features": size.features,
        "tables": size.tables,
        "rows": sum(len(ids) for ids in ready.rows.values()),
        "ids": sum(len(x.numbers) for x in batch),
        "distinct ids": distinct,
        "stores": len(ours.engine.embedding.groups),
    }


def _split(ours: _Ours, grads: Sequence[torch.Tensor], setting: Setting) -> dict[str, float]:
    """The median time of each part of a step, in microseconds."""

    def wait() -> None:
        if setting.device.type == "cuda":
            torch.cuda.synchronize(setting.device)

    found = [ours.parts(k % SETS, grads[k % SETS], wait) for k in range(max(3, min(setting.runs, 9)))]
    return {f"us {part}": 1e6 * sorted(x[part] for x in found)[len(found) // 2] for part in found[0]}


def _floor(ready: _Ready, grad: torch.Tensor, device: torch.device) -> dict[str, float]:
    """Bytes: a row for each id, the output and its gradient, each distinct row and its state read and written."""
    bandwidth = copy_bandwidth(device)
    moved = 2 * grad.nbytes
    for table, values in ready.tables.items():
        numbers = [x.numbers for x in ready.batches[0] if x.table == table]
        row = values.shape[1] * values.itemsize
        moved += row * sum(map(len, numbers)) + 4 * row * len(torch.unique(torch.cat(numbers)))
    return {"bytes": moved, "bytes_per_second": bandwidth, "seconds": moved / bandwidth}
