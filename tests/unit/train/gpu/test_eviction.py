"""Eviction on a device against that of the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import OptionError
from colonnade.train.admission import ByCount
from colonnade.train.eviction import ByAge, Eviction, Lfu, Lru
from colonnade.train.gpu import store as module
from colonnade.train.gpu.module import CAPABILITIES, Kernels
from tests.unit.train.gpu.engines import IDS, batch_of, both, state_of, step


def evicting(*policies: tuple[Eviction, ...]) -> list[dict[str, Any]]:
    return [{"eviction": own} for own in policies]


POLICIES = evicting((), (ByAge(2),), (Lru(2),), (Lfu(3),), (ByAge(3), Lru(3), Lfu(1)), (Lfu(2**70), ByAge(2**70)))
LISTS = st.lists(st.lists(IDS, max_size=8), min_size=len(POLICIES), max_size=len(POLICIES))


def taken(engine: Any) -> dict[str, list[int]]:
    return {name: ids.tolist() for name, ids in engine.take_evicted().items()}


def test_each_policy_gives_up_what_it_does_on_the_cpu(device: torch.device) -> None:
    @settings(max_examples=4 if device.type == "cpu" else 40, deadline=None)
    @given(st.lists(LISTS, min_size=1, max_size=4), st.integers(0, 2))
    def run(batches: list[list[list[int]]], every: int) -> None:
        one, other = both(device, POLICIES, evict_every=every)
        for ids in batches:
            batch = batch_of(ids)
            assert step(one, batch) == step(other, batch)
        assert one.evict() == other.evict()
        assert state_of(one) == state_of(other)
        other.load_state_dict(one.state_dict())
        assert taken(one) == taken(other)
        assert taken(other) == {f"t{n}": [] for n in range(len(POLICIES))}

    run()


def test_rows_of_one_step_go_by_their_ids(device: torch.device) -> None:
    """All rows are as old and as often used: none is told apart by when it was made."""
    ids = np.random.default_rng(0).permutation(np.arange(-20, 20))
    for engine in both(device, evicting((Lru(30),), (Lfu(30),))):
        step(engine, batch_of([ids.tolist(), ids[::-1].tolist()]))
        assert engine.evict() == {"t0": 10, "t1": 10}
        assert taken(engine) == {"t0": list(range(-20, -10)), "t1": list(range(-20, -10))}


def test_a_table_that_stands_still_gives_up_nothing(device: torch.device) -> None:
    one, other = both(device, evicting((ByAge(1),), (ByAge(1),), (Lru(1),)))
    for engine in (one, other):
        engine.freeze("t0")
        engine.freeze("t2")
        engine.table("t0").write(torch.tensor([5, 6]), torch.ones(2, 2))
        engine.table("t2").write(torch.tensor([5, 6]), torch.ones(2, 2))
        step(engine, batch_of([[1], [2, 3], [4]]))
        step(engine, batch_of([[1], [3], [4]]))
        assert engine.evict() == {"t1": 1} and taken(engine) == {"t0": [], "t1": [2], "t2": []}
        engine.freeze("t2", False)
        assert engine.evict() == {"t2": 1} and taken(engine) == {"t0": [], "t1": [], "t2": [5]}
    assert state_of(one) == state_of(other)


def test_an_id_that_came_back_is_not_among_the_evicted(device: torch.device) -> None:
    for engine in both(device, [{"eviction": (ByAge(1),), "admission": ByCount(2)}]):
        for ids in ([7, 7, 8, 8], [9]):
            step(engine, batch_of([ids]))
        assert engine.evict() == {"t0": 2}
        step(engine, batch_of([[7, 9]]))
        assert state_of(engine)["t0.evicted"] == [7, 8]  # 7 is counted anew
        step(engine, batch_of([[7]]))
        assert taken(engine) == {"t0": [8]} and sorted(engine.table("t0").ids().tolist()) == [7, 9]


def test_nothing_is_given_up_in_eval_mode(device: torch.device) -> None:
    _, other = both(device, evicting((ByAge(1),)), evict_every=1)
    step(other, batch_of([[1, 2]]))
    other.table("t0").write(torch.tensor([3]), torch.ones(1, 2))
    other.eval()
    before = state_of(other)
    with pytest.raises(OptionError, match="training alone"):
        other.evict()
    other.step()
    step(other, batch_of([[4]]))
    assert {**before, "steps": before["steps"] + 1} == state_of(other)


@dataclass(frozen=True)
class Unknown(Eviction):
    """No kernel knows it."""

    def chosen(self, ids: Any, steps: Any, counts: Any, step: int) -> Any:
        return np.arange(len(ids))


def test_a_policy_that_no_kernel_knows_is_refused(device: torch.device) -> None:
    with pytest.raises(OptionError, match="eviction that a device does not know") as caught:
        both(device, evicting((Unknown(),), (ByAge(1),), (ByAge(1), Unknown())))
    assert all(f"table 't{n}': Unknown()" in str(caught.value) for n in (0, 2))


LONGS = ("blocks", "counters", "policies", "lives")
SIGNATURE = {
    **dict.fromkeys(LONGS, "*i64"),
    **dict.fromkeys(("num_shift", "row_bytes", "num", "num_step"), "i32"),
    "marks": "*i8",
}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_kernel_compiles(capability: int) -> None:
    Kernels(module.FILES, interpret=False).compiled("mark_old", SIGNATURE, {"BLOCK": module.FINDING}, capability)
