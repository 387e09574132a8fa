"""The transform of features: one call of the engine against one op at a time, on workloads of published size.

    python -m benchmarks.features ad search lazada

One op at a time: each op of each feature is one vectorised call of torch or numpy. Nothing is timed before all three
ways give the same. A row a workload is appended to `benchmarks/results/features.jsonl`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.workload_rows import write_rows
from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.fingerprint import fingerprints64
from colonnade.core.murmur import murmur_words
from colonnade.core.ragged import Ragged, offsets_of
from colonnade.core.strings import Strings
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ops.op import RaggedOp
from colonnade.testing.machine import commit, machine, versions
from colonnade.testing.workloads import batch_of, features_of, workload
from colonnade.train.features.batch import read
from colonnade.train.features.fused import FusedTransform
from colonnade.train.features.reference import ReferenceTransform
from colonnade.train.features.transformed import Transformed, joined

RESULTS = Path(__file__).parent / "results" / "features.jsonl"
RUNS = 21


class OpAtATime:
    """The transform by one call of torch or numpy an op and feature, none of which loops over elements in Python."""

    def __init__(self, features: FeatureSet) -> None:
        self.features = features

    def __call__(self, batch: Mapping[str, Any]) -> Transformed:
        """All features of a batch."""
        fields, rows = read(batch, self.features.read)
        sparse, dense = {}, {}
        for feature in self.features.features:
            found = self._value(feature.expr, fields)
            if feature.is_dense:
                dense[feature.name] = found.values.reshape(rows, -1)
            else:
                sparse[feature.name] = found
        return joined(rows, sparse, dense)

    def _value(self, expr: Expr, fields: Mapping[str, Ragged]) -> Ragged:
        if isinstance(expr, Field):
            return fields[expr.name]
        assert isinstance(expr, Apply)
        args = [self._value(a, fields) for a in expr.args]
        fast = FAST.get(expr.op.name)
        if isinstance(expr.op, RaggedOp):
            return fast(expr.op, *args) if fast else expr.op.apply(*args)
        values = fast(expr.op, args[0].values) if fast else expr.op.reference(args[0].values)
        return Ragged(values, args[0].offsets, args[0].weights)


def _hash_bytes(op: Any, x: Strings) -> torch.Tensor:
    hashes = fingerprints64(x.data, x.offsets[:-1], np.diff(x.offsets))
    return torch.from_numpy(hashes.view(np.int64))


def _hash_int(op: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(murmur_words([x.numpy().view(np.uint64)]).view(np.int64))


def _vocabulary(op: Any, x: torch.Tensor) -> torch.Tensor:
    keys, order = torch.from_numpy(op.keys.array.copy()).sort()
    at = torch.searchsorted(keys, x).clamp(max=len(keys) - 1)
    return torch.where(keys[at] == x, order[at], op.default)


def _cross(op: Any, *args: Ragged) -> Ragged:
    x, y = args
    counts = x.lengths * y.lengths
    rows = torch.arange(x.rows).repeat_interleave(counts)
    offsets = offsets_of(counts)
    place = torch.arange(int(offsets[-1])) - offsets[rows]
    first = x.offsets[0][rows] + torch.div(place, y.lengths[rows], rounding_mode="floor")
    second = y.offsets[0][rows] + place % y.lengths[rows]
    words = [v.numpy().view(np.uint64) for v in (x.values[first], y.values[second])]
    return Ragged(torch.from_numpy(murmur_words(words).view(np.int64)), (offsets,))


FAST: dict[str, Callable[..., Any]] = {
    "hash_bytes": _hash_bytes,
    "hash_int": _hash_int,
    "vocabulary": _vocabulary,
    "cross": _cross,
}


def same(a: Transformed, b: Transformed) -> bool:
    """Whether two results agree in every id, offset, weight and number."""
    sparse = all(torch.equal(x, y) for name in a.sparse for x, y in _pairs(a.sparse[name], b.sparse[name]))
    return sparse and all(torch.equal(x, b.dense[name]) for name, x in a.dense.items())


def _pairs(x: Ragged, y: Ragged) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(_tensors(x), _tensors(y), strict=True))


def _tensors(x: Ragged) -> list[torch.Tensor]:
    return [x.values, *x.offsets, torch.empty(0) if x.weights is None else x.weights]


def timed(call: Callable[[], Any], runs: int) -> list[float]:
    """Milliseconds of each run."""
    call()
    found = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        found.append(1e3 * (time.perf_counter() - begin))
    return sorted(found)


def measure(name: str, runs: int) -> dict[str, Any] | None:
    """A row of results; None where the ways do not agree."""
    size = workload(name)
    features = features_of(size)
    fused, plain = FusedTransform(features), OpAtATime(features)
    small, batch = batch_of(features, 33, seed=1), batch_of(features, size.batch)
    good = same(fused(small), ReferenceTransform(features)(small)) and same(fused(batch), plain(batch))
    if not good:
        return None
    ours, theirs = timed(lambda: fused(batch), runs), timed(lambda: plain(batch), max(runs // 4, 3))
    ops = sum(1 for f in features.features for _ in _ops(f.expr))
    return {
        "case": f"features_{name}", "features": size.features, "ops": ops, "batch": size.batch,
        "ids": len(fused(batch).ids), "fused_ms": _spread(ours), "op_at_a_time_ms": _spread(theirs),
        "ratio": round(statistics.median(theirs) / statistics.median(ours), 2), **machine(),
        "commit": commit(), "versions": versions(),
    }  # fmt: skip


def _ops(expr: Expr) -> list[Expr]:
    return [expr, *(e for a in expr.args for e in _ops(a))] if isinstance(expr, Apply) else []


def _spread(times: list[float]) -> list[float]:
    """p20, p50, p80."""
    return [round(times[int(q * (len(times) - 1))], 3) for q in (0.2, 0.5, 0.8)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(write_rows(lambda name: measure(name, RUNS), RESULTS))
