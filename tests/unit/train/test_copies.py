"""Engines that are copied, pickled, or moved where they cannot lie."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.train import engine as engines
from colonnade.train.admission import ByCount
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.optimizers import Adagrad
from colonnade.train.table_config import TableConfig

TABLES = (
    TableConfig("a", 3, optimizer=Adagrad(0.1)),
    TableConfig("b", 5, admission=ByCount(2)),
    TableConfig("c", 3, optimizer=Adagrad(0.1)),
)


def made() -> EmbeddingEngine:
    features = [EmbeddingFeature(t.name, t) for t in TABLES]
    return EmbeddingEngine(features, seed=3, budget=100_000_000, evict_every=7)


def batch(*ids: int) -> dict[str, Ragged]:
    given = Ragged.of(torch.tensor(ids), torch.arange(len(ids) + 1))
    return {t.name: given for t in TABLES}


def trained(engine: EmbeddingEngine, *ids: int) -> None:
    sum(out.sum() for out in engine(batch(*ids)).values()).backward()
    engine.step()


def same(one: EmbeddingEngine, other: EmbeddingEngine) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda engine: pickle.loads(pickle.dumps(engine))])
def test_a_copy_goes_on_as_its_engine_would_and_shares_nothing(way) -> None:  # type: ignore[no-untyped-def]
    engine = made()
    trained(engine, 1, 2, -(2**63), 2**63 - 1, 2)
    engine.freeze("c")
    other = way(engine)
    assert same(engine, other) and other.budget.most == engine.budget.most and other.evict_every == 7
    assert [list(g.frozen) for g in other.groups] == [list(g.frozen) for g in engine.groups]
    for each in (engine, other):
        trained(each, 2, 9, 1)
    assert same(engine, other)
    trained(other, 5)
    assert not same(engine, other) and len(engine.table("a")) == 5


def test_an_engine_within_a_model_is_copied_with_it() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.add_module("rows", made())
    trained(model.rows, 4, 4)
    assert same(model.rows, copy.deepcopy(model).rows)


def test_a_copy_in_eval_mode_is_in_eval_mode() -> None:
    assert not copy.deepcopy(made().eval()).training


def test_a_move_that_fails_leaves_the_budget_and_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made()
    trained(engine, 1, 2, 3)
    before, used, groups = engine.state_dict(), engine.budget.used, list(engine.groups)

    def failing(group, seed, budget, device):  # type: ignore[no-untyped-def]
        budget.take(1000, "half made")
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(engines, "moved", failing)
    with pytest.raises(RuntimeError, match="gone"):
        engine._move(torch.device("meta"))
    assert engine.budget.used == used and engine.groups == groups and engine.device.type == "cpu"
    assert all(torch.equal(before[name], tensor) for name, tensor in engine.state_dict().items())
    trained(engine, 1)
