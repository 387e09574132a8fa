"""Inputs that broke systems like this one, as their users reported them; the kind of each, not the case alone."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.errors import FeedError, GradientError
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.eviction import Lru
from colonnade.train.feature_engine import FeatureEngine
from colonnade.train.gradients import GradientPolicy
from colonnade.train.ids import MOST_IDS, pack
from colonnade.train.initializers import Constant, Normal
from colonnade.train.optimizers import Adagrad, Adam, AdamW, Ftrl, Optimizer, RowWiseAdagrad, Sgd
from colonnade.train.reduce.cpu import CpuPooling
from colonnade.train.reduce.segment import Elements, Segment, SegmentPlan
from colonnade.train.segments import read_layout
from colonnade.train.table_config import TableConfig

FOUR = torch.tensor([[k + 1.0, 10.0 * (k + 1)] for k in range(4)])


def bags(pooling: str, *ops: Any, **options: Any) -> FeatureEngine:
    """A feature of a field of ids, over a table of four rows of two."""
    feature = Feature("f")
    for op in ops:
        feature = op(feature)
    engine = FeatureEngine(FeatureSet([feature.embed("t", 2, pooling)], [FieldSpec("f", "int64", ragged=1)]), **options)
    engine.embedding.table("t").write(torch.arange(4), FOUR)
    return engine


NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on
EMPTY = torch.zeros(0, dtype=torch.int64)


@pytest.mark.parametrize(
    ("pooling", "want"),
    [
        ("sum", [[3, 30], [0, 0], [3, 30], [0, 0]]),
        ("mean", [[1.5, 15], [0, 0], [3, 30], [0, 0]]),
        ("max", [[2, 20], [0, 0], [3, 30], [0, 0]]),
    ],
)
def test_empty_bags_at_any_place_are_zeros(pooling: str, want: list[list[float]]) -> None:
    engine = bags(pooling)
    assert engine({"f": Ragged.of([0, 1, 2], [0, 2, 2, 3, 3])})["f"].tolist() == want
    assert engine({"f": Ragged.of(EMPTY, [0, 0, 0])})["f"].tolist() == [[0, 0], [0, 0]]
    assert engine({"f": Ragged.of(EMPTY, [0])})["f"].shape == (0, 2)
    with pytest.raises(FeedError):
        engine({"f": Ragged.of([0, 1], [])})


@pytest.mark.parametrize(("pooling", "want"), [("sum", 4.0), ("mean", 2.0), ("max", 3.0)])
def test_padding_that_is_dropped_neither_counts_nor_learns(pooling: str, want: float) -> None:
    engine = bags(pooling, lambda f: f.drop([1]), optimizer=Sgd(1.0))
    out = engine({"f": Ragged.of([1, 1, 2, 0, 1, 2], [0, 2, 3, 6])})["f"]
    assert out[:, 0].tolist() == [0.0, 3.0, want]
    out.sum().backward()
    engine.step()
    assert torch.equal(engine.embedding.table("t").read(torch.tensor([1]))[0], FOUR[1:2])


def test_a_negative_or_large_id_is_an_id_of_its_own() -> None:
    """No id is reserved, none counts from the end, none wraps around."""
    engine = bags("sum", initializer=Constant(0.5))
    ids = [-1, 4, 3, 2**63 - 1, -(2**63), 2**31, 2**32 + 3]
    out = engine({"f": Ragged.of(ids, list(range(len(ids) + 1)))})["f"]
    assert out[:, 0].tolist() == [0.5, 0.5, 4.0, 0.5, 0.5, 0.5, 0.5] and len(engine.embedding.table("t")) == 10


def test_ids_that_are_changed_after_the_lookup_change_no_gradient() -> None:
    engine = EmbeddingEngine([EmbeddingFeature("f", TableConfig("t", 2, optimizer=Sgd(1.0)))])
    engine.table("t").write(torch.arange(4), FOUR)
    values = torch.tensor([0, 2])
    given = Ragged.of(values, [0, 1, 2])
    out = engine({"f": given})["f"]
    values.fill_(99)
    given.offsets[0].fill_(7)
    out.sum().backward()
    engine.step()
    assert (FOUR - engine.table("t").read(torch.arange(4))[0])[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


def _sparse(*shape: int) -> torch.Tensor:
    """Zeros that take memory only where they are touched."""
    size = 4 * int(np.prod(shape))
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    return torch.frombuffer(memory, dtype=torch.float32).reshape(shape)


@pytest.mark.parametrize("pooling", ["sum", "max", "none"])
def test_rows_that_lie_beyond_two_to_the_31_values_are_reached(pooling: str) -> None:
    last, dim = 2**15, 2**16
    rows, grads = _sparse(last + 1, dim), _sparse(last + 1, dim)
    rows[last, :3] = torch.tensor([1.0, 2.0, 3.0])
    offsets, inverse = torch.tensor([[0, 2]]), torch.tensor([0, last], dtype=torch.int32)
    plan = SegmentPlan([Segment(0, dim, pooling, 0)], [dim])
    (out,) = plan.run(Elements(offsets, inverse, (False,)), None, [rows])
    assert out[-1, :3].tolist() == [1.0, 2.0, 3.0]
    given = torch.ones_like(out)
    cpu = CpuPooling(read_layout(plan.text_of(())))
    cpu.spread((offsets, inverse, None), [rows], [out.reshape(-1)], [given.reshape(-1)], [grads], None)
    assert grads[last, :3].tolist() == [1.0, 1.0, 1.0]


def test_a_batch_of_more_ids_than_can_be_numbered_is_refused() -> None:
    many = torch.zeros(1, dtype=torch.int64).expand(MOST_IDS + 1)
    with pytest.raises(FeedError, match="too many ids"):
        pack(["f"], {"f": Ragged(many, (torch.tensor([0, MOST_IDS + 1]),))})


def test_an_evicted_id_is_told_once_and_served_as_the_default() -> None:
    config = TableConfig("t", 2, initializer=Normal(0, 1), eviction=(Lru(8),), default=0.25)
    engine = EmbeddingEngine([EmbeddingFeature("f", config)])
    for first in (0, 4, 8):
        engine({"f": Ragged.of(list(range(first, first + 4)), [0, 1, 2, 3, 4])})["f"].sum().backward()
        engine.step()
    kept = engine.table("t").read(torch.arange(4, 12))[0]
    removed = engine.evict()
    told = engine.take_evicted()["t"]
    assert removed == {"t": 4} and told.tolist() == [0, 1, 2, 3] and not len(engine.take_evicted()["t"])
    engine({"f": Ragged.of(list(range(100, 5000)), [0, 4900])})  # rows used again, and growth
    assert torch.equal(engine.table("t").read(torch.arange(4, 12))[0], kept)
    engine.eval()
    assert engine({"f": Ragged.of([0, 1], [0, 1, 2])})["f"].tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_a_cross_of_repeated_elements_counts_each() -> None:
    features = FeatureSet(
        [Feature.cross("x", "a", "b").mod(1000).embed("t", 2)],
        [FieldSpec("a", "int64", ragged=1), FieldSpec("b", "int64", ragged=1)],
    )
    engine = FeatureEngine(features, optimizer=Sgd(1.0), initializer=Normal(0, 1))
    out = engine({"a": Ragged.of([7, 7], [0, 2]), "b": Ragged.of([1, 2, 1], [0, 3])})["x"]
    table = engine.embedding.table("t")
    before = table.read(table.ids())[0]
    torch.testing.assert_close(out[0], before[0] * 4 + before[1] * 2)
    out.sum().backward()
    engine.step()
    torch.testing.assert_close(before - table.read(table.ids())[0], torch.tensor([[4.0, 4.0], [2.0, 2.0]]))


SQUARING = [Adagrad(0.1), RowWiseAdagrad(0.1), Adam(0.1), AdamW(0.1), Ftrl(0.1)]


def _trained(optimizer: Optimizer, scale: float, policy: GradientPolicy | None = None) -> EmbeddingEngine:
    engine = EmbeddingEngine(
        [EmbeddingFeature("f", TableConfig("t", 3, optimizer=optimizer, initializer=Constant(1.0)))], gradients=policy
    )
    (engine({"f": Ragged.of([1, 2], [0, 1, 2])})["f"] * torch.tensor([[scale], [1.0]])).sum().backward()
    engine.step()
    return engine


@pytest.mark.parametrize("optimizer", SQUARING, ids=lambda o: type(o).__name__)
def test_no_gradient_makes_a_state_infinite(optimizer: Optimizer) -> None:
    """A square that is infinite would stop its row for ever, and nobody would know."""
    with pytest.raises(GradientError, match="too large to be squared"):
        _trained(optimizer, 3e19)
    for policy in (GradientPolicy("skip_rows"), GradientPolicy(max_value=1e3), GradientPolicy(max_row_norm=5.0), None):
        scale = 3e19 if policy is not None else 1.8e19
        engine = _trained(optimizer, scale, policy)
        state = engine.state_dict()["t.states"]
        assert torch.isfinite(state).all(), policy
        rows = engine.table("t").read(torch.tensor([1, 2]))[0]
        assert torch.isfinite(rows).all() and (rows[1] != 1).all()
        assert bool((rows[0] == 1).all()) == (policy is not None and policy.not_finite == "skip_rows")
    for _ in range(3):  # sums of squares that are finite each
        (engine({"f": Ragged.of([1], [0, 1])})["f"] * 1.8e19).sum().backward()
        engine.step()
    assert torch.isfinite(engine.state_dict()["t.states"]).all()


def test_an_optimizer_that_squares_nothing_takes_what_is_finite() -> None:
    rows = _trained(Sgd(1e-20), 1e20).table("t").read(torch.tensor([1]))[0]
    torch.testing.assert_close(rows, torch.zeros(1, 3))


def test_the_same_bits_in_each_run() -> None:
    """Also where torch is asked for them: pooling, merging and updates have one order."""

    def run() -> dict[str, torch.Tensor]:
        config = TableConfig("t", 11, optimizer=Adagrad(0.1), initializer=Normal(0, 1))
        engine = EmbeddingEngine([EmbeddingFeature(n, config, p) for n, p in (("a", "sum"), ("b", "mean"))])
        rng = np.random.default_rng(3)
        for _ in range(3):
            given = {n: Ragged.of(rng.integers(0, 50, 400), np.arange(0, 401, 8)) for n in "ab"}
            sum(x.sin().sum() for x in engine(given).values()).backward()
            engine.step()
        return engine.state_dict()

    first = run()
    torch.use_deterministic_algorithms(True)
    try:
        second = run()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(first[name], second[name]) for name in first)
