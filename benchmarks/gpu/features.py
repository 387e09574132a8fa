"""The transform of features on a GPU against one op of torch at a time, on workloads of published size.

    python -m benchmarks.gpu.features ad search lazada

Times are of the device alone, from replays of a CUDA graph; `whole` is from tensors on the device to checked views, by
the host's clock. The floor is the bytes of all fields, read once, and of all results, written once, at the bandwidth
of a large copy. One op at a time: each op of each feature by torch's ops on the device; hashes of strings are given to
it. Nothing is timed before both give the same, and few rows what the reference gives. A row a workload is appended to
`benchmarks/results/features_gpu.jsonl`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.clock import Clock, copy_bandwidth
from benchmarks.gpu.kernels import COPIES, counted
from benchmarks.workload_rows import write_rows
from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.fingerprint import fingerprints64
from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.frontends.feature_set import FeatureSet
from colonnade.testing.machine import commit, machine, versions
from colonnade.testing.workloads import batch_of, features_of, workload
from colonnade.train.features.gpu import DeviceBatch, GpuTransform
from colonnade.train.features.reference import ReferenceTransform
from colonnade.train.features.transformed import Transformed

RESULTS = Path(__file__).parents[1] / "results" / "features_gpu.jsonl"
BATCHES = 3
"""Batches in turn, so that no cache holds what is read."""
RUNS = 30
FACTOR = 0xC6A4A7935BD1E995 - (1 << 64)


class TorchOps:
    """The transform by torch's ops on the device. hashes: of the strings of each field."""

    def __init__(self, features: FeatureSet, hashes: Mapping[str, torch.Tensor]) -> None:
        self.features = features
        self.hashes = hashes

    def __call__(self, batch: Mapping[str, Ragged]) -> tuple[torch.Tensor, list[Ragged]]:
        """All ids in one tensor, and every feature."""
        found = [self._value(f.expr, batch) for f in self.features.features]
        ids = [x.values for x, f in zip(found, self.features.features, strict=True) if not f.is_dense]
        return torch.cat(ids), found

    def _value(self, expr: Expr, fields: Mapping[str, Ragged]) -> Ragged:
        if isinstance(expr, Field):
            return fields[expr.name]
        assert isinstance(expr, Apply)
        if expr.op.name == "hash_bytes":
            name = expr.args[0].name  # type: ignore[attr-defined]
            return Ragged(self.hashes[name], fields[name].offsets)
        args = [self._value(a, fields) for a in expr.args]
        made: Ragged = OPS[expr.op.name](expr.op, *args)
        return made


def _map(function: Callable[[Any, torch.Tensor], torch.Tensor]) -> Callable[..., Ragged]:
    return lambda op, x: Ragged(function(op, x.values), x.offsets, x.weights)


def _mod(op: Any, x: torch.Tensor) -> torch.Tensor:
    """Unsigned, by halves."""
    half = ((x >> 1) & (2**63 - 1)) % op.divisor
    found: torch.Tensor = (half * 2 + (x & 1)) % op.divisor
    return found


def _shifted(x: torch.Tensor) -> torch.Tensor:
    return x ^ ((x >> 47) & ((1 << 17) - 1))


def _murmur(*words: torch.Tensor) -> torch.Tensor:
    h = torch.full_like(words[0], 8 * len(words)) * FACTOR
    for word in words:
        h = (h ^ _shifted(word * FACTOR) * FACTOR) * FACTOR
    return _shifted(_shifted(h) * FACTOR)


def _offsets(lengths: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def _keep(op: Any, x: Ragged, mask: Ragged) -> Ragged:
    before = torch.nn.functional.pad(mask.values.to(torch.int64).cumsum(0), (1, 0))
    weights = None if x.weights is None else x.weights[mask.values]
    return Ragged(x.values[mask.values], (before[x.offsets[0]],), weights)


def _vocabulary(op: Any, x: torch.Tensor) -> torch.Tensor:
    keys, order = torch.from_numpy(op.keys.array.copy()).to(x.device).sort()
    at = torch.searchsorted(keys, x).clamp(max=len(keys) - 1)
    return torch.where(keys[at] == x, order[at], op.default)


def _truncate(op: Any, x: Ragged) -> Ragged:
    lengths = x.offsets[0].diff()
    kept = lengths.clamp(max=op.length)
    offsets = _offsets(kept)
    shift = x.offsets[0][1:] - kept - offsets[:-1]
    places = torch.arange(int(offsets[-1]), device=shift.device) + shift.repeat_interleave(kept)
    return Ragged(x.values[places], (offsets,))


def _cross(op: Any, x: Ragged, y: Ragged) -> Ragged:
    lengths = y.offsets[0].diff()
    counts = x.offsets[0].diff() * lengths
    offsets = _offsets(counts)
    rows = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    place = torch.arange(int(offsets[-1]), device=counts.device) - offsets[rows]
    first = x.offsets[0][rows] + torch.div(place, lengths[rows], rounding_mode="floor")
    second = y.offsets[0][rows] + place % lengths[rows]
    return Ragged(_murmur(x.values[first], y.values[second]), (offsets,))


class _Bounds(dict[Any, torch.Tensor]):
    def __missing__(self, const: Any) -> torch.Tensor:
        self[const] = torch.from_numpy(const.array.copy()).to("cuda" if torch.cuda.is_available() else "cpu")
        return self[const]


BOUNDS = _Bounds()


OPS: dict[str, Callable[..., Ragged]] = {
    "mod": _map(_mod),
    "bucketize": _map(lambda op, x: torch.bucketize(x, BOUNDS[op.boundaries].to(x.device), right=True)),
    "cast": _map(lambda op, x: x.to(getattr(torch, op.to))),
    "fill_missing": _map(lambda op, x: torch.nan_to_num(x, op.fill)),
    "clip": _map(lambda op, x: x.clamp(op.least, op.most)),
    "affine": _map(lambda op, x: x * op.scale + op.shift),
    "hash_int": _map(lambda op, x: _murmur(x)),
    "vocabulary": _map(_vocabulary),
    "at_most": _map(lambda op, x: x <= op.bound),
    "keep": _keep,
    "truncate": _truncate,
    "cross": _cross,
}


def equal(got: Transformed, ids: torch.Tensor, found: list[Ragged], features: FeatureSet) -> bool:
    """Whether every id, offset, weight and number agrees."""
    same = torch.equal(got.ids, ids)
    for feature, x in zip(features.features, found, strict=True):
        if feature.is_dense:
            same &= torch.equal(got.dense[feature.name].reshape(-1), x.values)
            continue
        y = got.sparse[feature.name]
        same &= all(torch.equal(a, b) for a, b in zip(x.offsets, y.offsets, strict=True))
        same &= x.weights is None or (y.weights is not None and torch.equal(x.weights, y.weights))
    return same


def agrees(got: Transformed, want: Transformed) -> bool:
    """The same, against a result on the host."""
    same = torch.equal(got.ids.cpu(), want.ids)
    same &= all(torch.equal(got.dense[name].cpu(), x) for name, x in want.dense.items())
    for name, x in want.sparse.items():
        y = got.sparse[name]
        same &= all(torch.equal(a, b.cpu()) for a, b in zip(x.offsets, y.offsets, strict=True))
        same &= x.weights is None or (y.weights is not None and torch.equal(x.weights, y.weights.cpu()))
    return same


def floor_bytes(transform: GpuTransform, batch: DeviceBatch, got: Transformed) -> int:
    """Bytes of fields and of results, each once."""
    items = {"int32": 4, "int64": 8, "float32": 4, "float64": 8, "bool": 1, "string": 8}
    total = 0
    for k, spec in enumerate(transform.features.read):
        count = int(batch.held.words[k, 1])
        total += count * (items[spec.dtype] + 4 * spec.weighted)
        total += sum(8 * len(o) for o in batch.held.offsets[k]) if spec.ragged else 0
        if spec.dtype == "string":
            x = batch.source[spec.name]
            total += int(x.offsets[-1] - x.offsets[0])
    made = {o.data_ptr(): 8 * len(o) for x in got.sparse.values() for o in x.offsets}
    given = {o.data_ptr() for x in batch.held.offsets for o in x}
    total += sum(size for at, size in made.items() if at not in given)
    owned = {o.name for o in transform.plan.outputs if o.own_weights}
    total += sum(4 * len(got.sparse[name].values) for name in owned)
    return total + 8 * len(got.ids) + sum(4 * x.numel() for x in got.dense.values())


def measure(name: str, interpret: bool = False) -> dict[str, Any] | None:
    """A row of results; None where the ways do not agree."""
    size = workload(name)
    features = features_of(size)
    begun = time.perf_counter()
    transform = GpuTransform(features, interpret=interpret)
    small = batch_of(features, 33, seed=1)
    good = agrees(transform(small).wait(), ReferenceTransform(features)(small))
    first = time.perf_counter() - begun
    sources = [batch_of(features, size.batch, seed=k) for k in range(BATCHES)]
    batches = [transform.put(x) for x in sources]
    results = [transform(x) for x in batches]
    device = transform.device
    hashes = {s.name: _hashes(sources[0][s.name]).to(device) for s in features.read if s.dtype == "string"}
    plain = TorchOps(features, hashes)
    fields = {s.name: _field(sources[0][s.name], batches[0], k, device) for k, s in enumerate(features.read)}
    got = results[0].wait()
    for result in results:
        result.wait()
    good &= equal(got, *plain(fields), features)
    if not good:
        return None
    batches = [transform.put(x) for x in sources]  # with the room that the first ones showed to be needed
    outs = [torch.empty(x.arranged.out_bytes // 8 + 2, dtype=torch.int64, device=device) for x in batches]
    for x, before in zip(batches, results, strict=True):  # makes room for each
        good &= torch.equal(transform(x).wait().ids, before.wait().ids)
    if not good:
        return None
    clock = Clock(device, RUNS)
    calls = [lambda x=x, out=out: transform.enqueue(x, out) for x, out in zip(batches, outs, strict=True)]
    ours = clock.graph(calls)
    replayed = [transform.finish(x, out) for x, out in zip(batches, outs, strict=True)]
    if not all(torch.equal(a.ids, b.wait().ids) for a, b in zip(replayed, results, strict=True)):
        return None
    theirs = Clock(device, 5).events([lambda: plain(fields)])
    kernels = counted(calls[0], 1, device)
    bandwidth = copy_bandwidth(device)
    num_bytes = floor_bytes(transform, batches[0], got)
    floor = num_bytes / bandwidth
    whole = Clock(device, 10)._host(lambda: transform(batches[0]).wait(), 10)
    put = Clock(device, 10)._host(lambda: transform.put(sources[0]), 5)
    return {
        "case": f"gpu_features_{name}", "features": size.features, "batch": size.batch, "ids": len(got.ids),
        "device_us": [round(1e6 * t, 2) for t in (ours.p20, ours.p50, ours.p80)],
        "op_at_a_time_us": round(1e6 * theirs.p50, 1), "ratio": round(theirs.p50 / ours.p50, 1),
        "bytes": num_bytes, "copy_tb_s": round(bandwidth / 1e12, 3), "floor_us": round(1e6 * floor, 2),
        "of_floor": round(ours.p50 / floor, 2),
        "launches": sum(n for k, n in kernels.items() if not k.startswith(COPIES)),
        "copies": sum(n for k, n in kernels.items() if k.startswith(COPIES)),
        "whole_us": round(1e6 * whole, 1), "put_us": round(1e6 * put, 1), "first_call_s": round(first, 2),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "none",
        **machine(), "commit": commit(), "versions": versions(),
    }  # fmt: skip


def _hashes(x: Strings) -> torch.Tensor:
    return torch.from_numpy(fingerprints64(x.data, x.offsets[:-1], np.diff(x.offsets)).view(np.int64))


def _field(x: Any, batch: DeviceBatch, k: int, device: torch.device) -> Ragged:
    offsets, weights = batch.held.offsets[k], batch.held.weights[k]
    values = x.values if isinstance(x, Ragged) else x
    flat = values if isinstance(values, Strings) else torch.as_tensor(values).reshape(-1).to(device)
    return Ragged(flat, offsets, weights)


if __name__ == "__main__":
    sys.exit(write_rows(measure, RESULTS))
