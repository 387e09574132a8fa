"""A training step from the fields of a batch on, beside torch: an `nn.EmbeddingBag` a feature, and its optimizers.

What torch is not charged for: its tables have just the rows that the batches ask for, and ids come as numbers of these
rows; it gives the network a dense number for nothing. What it does is one vectorised call an op of each feature
(`benchmarks.features`), `embedding_bag`, backward with sparse gradients, and the optimizer's step. FBGEMM, where it is
installed and the tables are small, has dense tables, and ids that are ready.

Legend: B batch rows; W width of all outputs; D embedding_dim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.features import OpAtATime
from benchmarks.train import fbgemm
from colonnade.core.ragged import Ragged
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.testing.workloads import batch_of, features_of, workload
from colonnade.train.feature_engine import FeatureEngine
from colonnade.train.initializers import Normal
from colonnade.train.optimizers import Adagrad, Optimizer, Sgd
from colonnade.train.ragged_rows import RaggedRows

Batch = Mapping[str, Any]
RATE, START = 0.01, 0.1
"""START: of sums of squares. From 0, a first step would go by the sign of sums that are rounded differently."""
NUM_BATCHES = 3


@dataclass(frozen=True)
class Sides:
    """Calls of both sides, by what they do; each takes the next of the batches.

    agree: whether both give the same outputs, and the same rows after a step.   ids: of a batch.
    """

    calls: Mapping[str, Mapping[str, Callable[[], Any]]]
    agree: Callable[[], bool]
    batch: int
    ids: int


class Torch:
    """The same tables and features in torch alone. rows: of each table, the ids that batches ask for."""

    def __init__(self, engine: FeatureEngine, batches: Sequence[Batch], optimizer: Optimizer) -> None:
        self.features = engine.features
        self.transform = OpAtATime(engine.features)
        self.embedded = [f for f in engine.features.features if f.embedding is not None]
        found = [self.transform(batch).sparse for batch in batches]
        asked: dict[str, list[torch.Tensor]] = {}
        for feature in self.embedded:
            asked.setdefault(_table(feature), []).extend(x[feature.name].values for x in found)
        self.ids = {name: torch.unique(torch.cat(parts)) for name, parts in asked.items()}
        self.tables = {
            name: torch.nn.Parameter(engine.embedding.table(name).read(ids)[0]) for name, ids in self.ids.items()
        }
        self.numbers = [
            {f.name: torch.searchsorted(self.ids[_table(f)], x[f.name].values) for f in self.embedded} for x in found
        ]
        tables = list(self.tables.values())
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(tables, lr=RATE)
        if isinstance(optimizer, Adagrad):
            self.optimizer = torch.optim.Adagrad(tables, lr=RATE, initial_accumulator_value=START)

    def _numbers(self, feature: Feature, ids: Ragged) -> torch.Tensor:
        return torch.searchsorted(self.ids[_table(feature)], ids.values)

    def forward(self, batch: Batch, numbers: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """The outputs of embedded features."""
        found = self.transform(batch).sparse
        return [self._pooled(f, found[f.name], numbers[f.name]) for f in self.embedded]

    def _pooled(self, feature: Feature, ids: Ragged, numbers: torch.Tensor) -> torch.Tensor:
        assert feature.embedding is not None
        table, mode = self.tables[_table(feature)], feature.embedding.pooling
        if mode == "none":
            return torch.nn.functional.embedding(numbers, table, sparse=True)
        if ids.weights is None:
            return torch.nn.functional.embedding_bag(numbers, table, ids.offsets[0][:-1], mode=mode, sparse=True)
        total = torch.nn.functional.embedding_bag(
            numbers, table, ids.offsets[0][:-1], mode="sum", sparse=True, per_sample_weights=ids.weights
        )
        if mode == "sum":
            return total
        ends = torch.cat([torch.zeros(1), ids.weights.double().cumsum(0)])[ids.offsets[0]]
        return torch.nan_to_num(total / ends.diff().float()[:, None])


def _table(feature: Feature) -> str:
    assert feature.embedding is not None
    return feature.embedding.table


def _peers(engine: FeatureEngine, rows: int | None) -> list[fbgemm.Fbgemm]:
    if rows is None or not fbgemm.is_installed():
        return []
    ids = torch.arange(rows)
    tables = [engine.embedding.table(_table(f)).read(ids)[0] for f in engine.features.features]
    return [fbgemm.Fbgemm(engine.features, tables, RATE)]


def sides(features: FeatureSet, batches: Sequence[Batch], optimizer: Optimizer, rows: int | None = None) -> Sides:
    """Both sides, their tables equal.

    rows: of every table, one a feature, whose ids are 0 to rows - 1: FBGEMM is measured then, where it is installed.
    """
    pooled = [f.name for f in features.features if f.embedding is not None and f.embedding.pooling != "none"]
    dense = [f.name for f in features.features if f.is_dense]
    alone = [f.name for f in features.features if f.embedding is not None and f.embedding.pooling == "none"]
    outputs = {"deep": pooled} | ({"dense": dense} if dense else {}) | {name: [name] for name in alone}
    engine = FeatureEngine(features, outputs, optimizer=optimizer, initializer=Normal(0, 0.1))
    for batch in batches:
        engine(batch)
    engine.zero_grad()
    theirs = Torch(engine, batches, optimizer)
    turn: Counter[str] = Counter()

    def chosen(side: str) -> int:
        turn[side] += 1
        return turn[side] % len(batches)

    def our_outputs(k: int) -> list[torch.Tensor]:
        out = engine(batches[k])
        values = {n: x.values if isinstance(x, RaggedRows) else x for n, x in out.items() if n != "dense"}
        return [values.pop("deep"), *values.values()]

    def their_outputs(k: int) -> list[torch.Tensor]:
        out = dict(zip((f.name for f in theirs.embedded), theirs.forward(batches[k], theirs.numbers[k]), strict=True))
        return [torch.cat([out[n] for n in pooled], 1), *(out[n] for n in alone)]

    grads = [
        [torch.randn(x.shape, generator=torch.Generator().manual_seed(k)) for x in our_outputs(k)]
        for k in range(len(batches))
    ]
    engine.zero_grad()
    peers = _peers(engine, rows)

    def forward() -> None:
        with torch.no_grad():
            our_outputs(chosen("ours"))

    def their_forward() -> None:
        with torch.no_grad():
            their_outputs(chosen("torch"))

    def step(k: int | None = None) -> None:
        k = chosen("ours") if k is None else k
        torch.autograd.backward(our_outputs(k), grads[k])
        engine.step()

    def their_step(k: int | None = None) -> None:
        k = chosen("torch") if k is None else k
        torch.autograd.backward(their_outputs(k), grads[k])
        theirs.optimizer.step()
        theirs.optimizer.zero_grad()

    near = partial(torch.allclose, rtol=1e-3, atol=1e-4)

    def agree() -> bool:
        with torch.no_grad():
            same = all(near(a, b) for a, b in zip(our_outputs(0), their_outputs(0), strict=True))
        same = same and all(peer.gives(batches[0], our_outputs(0)[0]) for peer in peers)
        engine.zero_grad()
        step(0)
        their_step(0)
        for peer in peers:
            peer.learn(batches[0], grads[0][0])
        with torch.no_grad():
            same = same and all(peer.gives(batches[0], our_outputs(0)[0]) for peer in peers)
        return same and all(
            near(engine.embedding.table(name).read(theirs.ids[name])[0], table.detach())
            for name, table in theirs.tables.items()
        )

    ids = int(np.mean([len(engine.transform(batch).ids) for batch in batches]))
    size = int(our_outputs(0)[0].shape[0])
    engine.zero_grad()
    own: dict[str, dict[str, Callable[[], Any]]] = {
        "forward": {"ours": forward, "torch": their_forward},
        "step": {"ours": step, "torch": their_step},
    }
    more = [peer.calls(batches, [g[0] for g in grads], chosen) for peer in peers]
    calls = {what: sides | {side: call for m in more for side, call in m[what].items()} for what, sides in own.items()}
    return Sides(calls, agree, size, ids)


def thousand() -> Sides:
    """1,000 floats, each in one of 1,000 buckets, each bucket a row of 8: 256 batch rows, SGD."""
    rows, count, dim = 1000, 1000, 8
    boundaries = np.linspace(-3, 3, rows - 1).tolist()
    names = [f"f{k}" for k in range(count)]
    features = FeatureSet(
        [Feature(name).bucketize(boundaries).embed(dim=dim) for name in names],
        [FieldSpec(name, "float32") for name in names],
    )
    rng = np.random.default_rng(0)
    batches = [{name: rng.uniform(-3.1, 3.1, 256).astype(np.float32) for name in names} for _ in range(NUM_BATCHES)]
    return sides(features, batches, Sgd(RATE), rows)


def published(name: str) -> Sides:
    """A workload of published size: Adagrad."""
    size = workload(name)
    features = features_of(size)
    return sides(features, [batch_of(features, size.batch, seed) for seed in range(NUM_BATCHES)], ADAGRAD)


ADAGRAD = Adagrad(RATE, initial_accumulator_value=START)
WHOLE: dict[str, Callable[[], Sides]] = {
    "tables1000": thousand,
    "ad": lambda: published("ad"),
    "search": lambda: published("search"),
    "lazada": lambda: published("lazada"),
}
