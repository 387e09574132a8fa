"""Admission and eviction."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core.ragged import Ragged
from colonnade.errors import OptionError
from colonnade.train.admission import Admission, ByCount, ByProbability, ReadOnly
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.eviction import ByAge, Eviction, Lfu, Lru
from colonnade.train.initializers import Constant
from colonnade.train.optimizers import Sgd
from colonnade.train.table_config import TableConfig


def engine_of(admission: Admission | None = None, *eviction: Eviction, **options: int) -> EmbeddingEngine:
    table = TableConfig(
        "t", 2, initializer=Constant(1.0), optimizer=Sgd(0.5), default=-3.0, admission=admission, eviction=eviction
    )
    return EmbeddingEngine([EmbeddingFeature("f", table)], **options)  # type: ignore[arg-type]


def step(engine: EmbeddingEngine, ids: list[int]) -> list[float]:
    out = engine({"f": Ragged.of(torch.tensor(ids, dtype=torch.int64), torch.arange(len(ids) + 1))})["f"]
    if engine.training:
        out.sum().backward()
        engine.step()
    return out[:, 0].tolist()


def ids_in(engine: EmbeddingEngine) -> list[int]:
    return sorted(engine.table("t").ids().tolist())


@given(st.lists(st.lists(st.integers(-2, 3), max_size=8), max_size=8), st.integers(1, 4))
def test_an_id_is_admitted_when_it_has_occurred_often_enough(batches: list[list[int]], count: int) -> None:
    engine = engine_of(ByCount(count))
    seen: dict[int, int] = {}
    for ids in batches:
        step(engine, ids)
        for id_ in ids:
            seen[id_] = seen.get(id_, 0) + 1
        assert ids_in(engine) == sorted(id_ for id_, n in seen.items() if n >= count)


def test_an_id_that_is_not_admitted_is_the_default_and_learns_nothing() -> None:
    engine = engine_of(ByCount(2))
    assert step(engine, [5]) == [-3.0]
    assert step(engine, [5]) == [1.0] and step(engine, [5]) == [0.5]
    engine.eval()
    assert step(engine, [6]) == step(engine, [6]) == step(engine, [6]) == [-3.0]


def test_no_new_rows_where_a_table_is_read_only() -> None:
    engine = engine_of(ReadOnly())
    engine.table("t").write(torch.tensor([4]), torch.ones(1, 2))
    assert step(engine, [4, 5]) == [1.0, -3.0] and step(engine, [4, 5]) == [0.5, -3.0]
    assert ids_in(engine) == [4]


def test_chance_admits_its_share_and_the_same_ids_each_run() -> None:
    engines = [engine_of(ByProbability(0.25)) for _ in range(2)]
    for engine in engines:
        step(engine, list(range(4000)))
    assert 850 < len(ids_in(engines[0])) < 1150 and ids_in(engines[0]) == ids_in(engines[1])
    step(engines[0], list(range(4000)))
    assert 1600 < len(ids_in(engines[0])) < 1900
    sure = engine_of(ByProbability(1.0))
    step(sure, [1, 2])
    assert ids_in(sure) == [1, 2]


def test_rows_that_age_go() -> None:
    engine = engine_of(None, ByAge(2), evict_every=1)
    for ids in ([1, 2], [1], [1], [3]):
        step(engine, ids)
    assert ids_in(engine) == [1, 3]
    assert engine.take_evicted()["t"].tolist() == [2] and engine.take_evicted()["t"].tolist() == []


def test_the_least_recently_and_the_least_often_looked_up_go_first() -> None:
    for policy, kept in ((Lru(2), [3, 4]), (Lfu(2), [1, 4])):
        engine = engine_of(None, policy)
        for ids in ([1, 1, 1, 2], [3], [4]):
            step(engine, ids)
        assert engine.evict() == {"t": 2} and ids_in(engine) == kept
        assert engine.evict() == {}


def test_an_id_that_came_back_is_not_among_the_evicted() -> None:
    engine = engine_of(None, ByAge(1))
    step(engine, [7, 8])
    step(engine, [9])
    assert engine.evict() == {"t": 2}
    assert step(engine, [7]) == [1.0]  # new again
    assert engine.take_evicted()["t"].tolist() == [8]


def test_rows_used_again_evict_nobody_and_the_list_has_no_holes() -> None:
    engine = engine_of(None, Lru(90))
    step(engine, list(range(100)))
    step(engine, list(range(10, 100)))
    assert engine.evict() == {"t": 10}
    step(engine, list(range(1000, 1010)))
    store = engine.groups[0].store
    assert len(engine.table("t")) == 100 and store.num_rows == 100
    assert engine.take_evicted()["t"].tolist() == list(range(10))


def test_nothing_is_evicted_in_eval_mode() -> None:
    engine = engine_of(None, ByAge(1))
    step(engine, [1])
    engine.eval()
    with pytest.raises(OptionError, match="training alone"):
        engine.evict()


@pytest.mark.parametrize(
    "make", [lambda: ByCount(0), lambda: ByProbability(0.0), lambda: ByAge(0), lambda: Lru(0), lambda: Lfu(0)]
)
def test_policies_that_cannot_work_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError):
        make()
