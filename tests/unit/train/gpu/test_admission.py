"""Admission on a device against that of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from colonnade.errors import BudgetError, OptionError
from colonnade.train.admission import Admission, Admitter, ByCount, ByProbability, ReadOnly
from colonnade.train.gpu import admission as module
from colonnade.train.gpu import store as stores
from colonnade.train.gpu.module import CAPABILITIES, Kernels
from colonnade.train.tables import store as stores_on_cpu
from tests.unit.train.gpu.engines import IDS, batch_of, both, state_of, step


def admitting(*policies: Admission | None) -> list[dict[str, Any]]:
    return [{"admission": policy} for policy in policies]


POLICIES = admitting(None, ReadOnly(), ByProbability(0.4), ByCount(3), ByCount(1), ByProbability(1.0))


@contextmanager
def waits() -> Iterator[list[str]]:
    """What makes the host wait for a device."""
    found: list[str] = []

    class Watched(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero):
                found.append(str(func))
            return func(*args, **(kwargs or {}))

    with pytest.MonkeyPatch.context() as patch, Watched():
        read = torch.Tensor.tolist
        patch.setattr(torch.Tensor, "tolist", lambda self: (found.append("tolist"), read(self))[1])
        copied = torch.Tensor.cpu
        patch.setattr(torch.Tensor, "cpu", lambda self: (found.append("cpu"), copied(self))[1])
        yield found


def test_each_policy_admits_what_it_does_on_the_cpu(device: torch.device) -> None:
    lists = st.lists(st.lists(IDS, max_size=8), min_size=len(POLICIES), max_size=len(POLICIES))

    @settings(max_examples=3 if device.type == "cpu" else 40, deadline=None)
    @given(st.lists(lists, min_size=1, max_size=3))
    def run(batches: list[list[list[int]]]) -> None:
        one, other = both(device, POLICIES, seed=5)
        for ids in batches:
            batch = batch_of(ids)
            assert step(one, batch) == step(other, batch)
            assert state_of(one) == state_of(other)
        for engine in (one, other):
            engine.eval()
        for ids in batches:
            assert step(one, batch_of(ids)) == step(other, batch_of(ids))
        assert state_of(one) == state_of(other)

    run()


def test_ids_that_occur_often_are_admitted_by_chance_alike(device: torch.device) -> None:
    one, other = both(device, admitting(*map(ByProbability, (1e-9, 0.001, 0.3, 1 - 2**-53, 1.0))), seed=2**40)
    rng = np.random.default_rng(3)
    times = [1, 2, 3, 5, 8, 31]
    ids = rng.integers(-(2**63), 2**63, 40)
    repeated = np.repeat(ids, [times[k % 6] for k in range(40)]).tolist()
    for _ in range(2):
        batch = batch_of([repeated] * 5)
        step(one, batch)
        step(other, batch)
        assert state_of(one) == state_of(other)
    counts = [len(other.table(f"t{n}")) for n in range(5)]
    assert counts[0] == 0 and 5 < counts[2] < 40 and counts[3] == counts[4] == 40


@pytest.mark.parametrize("forth", [True, False])
def test_a_state_of_one_side_loads_on_the_other(device: torch.device, forth: bool) -> None:
    one, other = both(device, POLICIES) if forth else reversed(both(device, POLICIES))
    for ids in ([1, 2, 2, -(2**63)], [1, 3, 2**63 - 1]):
        step(one, batch_of([ids] * len(POLICIES)))
    other.load_state_dict(one.state_dict())
    assert state_of(one) == state_of(other)
    for ids in ([1, 2, 4], [3, 3, 5, 2**63 - 1]):
        batch = batch_of([ids] * len(POLICIES))
        assert step(one, batch) == step(other, batch)
    assert state_of(one) == state_of(other)


@pytest.mark.parametrize("count", [1, 99])
def test_a_state_needs_room_for_its_own_rows_and_counts_alone(
    device: torch.device, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there are, in the other table of the same stores: count 1, as rows; 99, as ids that wait."""
    monkeypatch.setattr(stores, "BLOCK_BYTES", 1 << 12)
    policies = admitting(*[ByCount(count)] * 2)
    ids = list(range(0, 700, 7))
    (one, _), (two, other) = both(device, policies), both(device, policies)
    step(one, batch_of([ids, []]))
    step(two, batch_of([[], ids]))
    for _ in range(3):  # what was removed takes no room
        other.load_state_dict(two.state_dict())
    other.budget.most = other.budget.used
    other.load_state_dict(one.state_dict())
    assert state_of(other) == state_of(one)


def test_tables_that_stand_still_admit_none_and_count_none(device: torch.device) -> None:
    one, other = both(device, POLICIES)
    for frozen, ids in ((False, [1, 2, 2]), (True, [1, 2, 3, 3, 3]), (False, [1, 3])):
        for engine in (one, other):
            for name in ("t0", "t3"):
                engine.freeze(name, frozen)
        batch = batch_of([ids] * len(POLICIES))
        assert step(one, batch) == step(other, batch)
        assert state_of(one) == state_of(other)


def test_in_eval_mode_an_unknown_id_is_the_default_and_nothing_changes(device: torch.device) -> None:
    _, other = both(device, POLICIES)
    step(other, batch_of([[1, 2]] * len(POLICIES)))
    before = state_of(other)
    other.eval()
    for _ in range(4):
        assert step(other, batch_of([[7, -9]] * len(POLICIES))) == {f"t{n}": [[-3.0, -3.0]] * 2 for n in range(6)}
    assert state_of(other) == before


def test_counts_of_ids_come_and_go_in_memory_that_is_used_again(device: torch.device) -> None:
    _, other = both(device, admitting(ByCount(2), ByCount(2)))
    store = other.groups[0].admissions.store  # type: ignore[union-attr]
    assert store is not None
    for start in range(0, 120 if device.type == "cpu" else 4000, 40):
        for _ in range(2):
            step(other, batch_of([list(range(start, start + 40))] * 2))
        assert store.num_rows == 0 and len(store._slots) <= 256
    assert int(store._counters[0]) <= 80 and len(other.table("t0")) == start + 40


def test_a_step_waits_for_the_device_no_more_than_without_policies(device: torch.device) -> None:
    found = []
    for policies in (admitting(*[None] * 6), POLICIES):
        _, other = both(device, policies)
        group = other.groups[0]
        for store in (group.store, group.admissions.store):  # type: ignore[union-attr]
            if store is not None:
                store.reserve(1000)
        batch = batch_of([[1, 2, 3, 3]] * 6)
        step(other, batch)
        with waits() as seen:
            other(batch)
        found.append(list(seen))
    assert found[0] == found[1]


def test_too_little_memory_for_counts_changes_nothing(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "BLOCK_BYTES", 1 << 12)
    _, other = both(device, admitting(ByCount(2), None), budget=20_000)
    step(other, batch_of([[1], [1, 2]]))
    before = state_of(other)
    with pytest.raises(BudgetError, match="more memory than they may"):
        other(batch_of([list(range(2, 800)), [1, 3]]))
    assert state_of(other) == before
    step(other, batch_of([[1], [1, 2]]))
    assert len(other.table("t0")) == 1


@dataclass(frozen=True)
class Unknown(Admission):
    """No kernel knows it."""

    def begin(self, name: str, fresh: Any, budget: Any) -> Admitter:
        return ReadOnly().begin(name, fresh, budget)


def test_a_policy_that_no_kernel_knows_is_refused(device: torch.device) -> None:
    with pytest.raises(OptionError, match="does not know") as caught:
        both(device, admitting(None, Unknown(), Unknown()))
    assert all(f"table 't{n}'" in str(caught.value) for n in (1, 2)) and "device='cpu'" in str(caught.value)


def test_the_kernel_marks_what_admitters_admit(device: torch.device) -> None:
    one, other = both(device, admitting(ByProbability(0.5), ByCount(4)), seed=9)
    rng = np.random.default_rng(1)
    on_cpu, group = one.groups[0], other.groups[0]
    for number in range(2):
        ids = rng.integers(-(2**63), 2**63, 100)
        keys = on_cpu.store.keys(number, ids)  # type: ignore[arg-type]
        keys = replace(keys, counts=rng.integers(1, 9, 100).astype(np.int32))  # type: ignore[arg-type, type-var]
        same = group.store.keys(number, torch.from_numpy(ids))  # type: ignore[arg-type]
        same = replace(same, counts=torch.from_numpy(keys.counts).to(device))  # type: ignore[arg-type, type-var]
        lacks = torch.full((100,), -1, dtype=torch.int64, device=device)
        for step_ in (1, 2, 2**31 - 1):
            asked = group.admissions.ask(same, lacks, step_)  # type: ignore[union-attr]
            assert asked.wanted.tolist() == on_cpu.admitters[number].admit(keys, step_).tolist()  # type: ignore


LONGS = ("slots", "blocks", "words", "hashes", "ids", "rows", "counted")
NUMBERS = ("num_buckets", "num_shift", "row_bytes", "num", "num_step")
SIGNATURE = {
    **dict.fromkeys(LONGS, "*i64"),
    **dict.fromkeys(("tables", "counts"), "*i32"),
    **dict.fromkeys(NUMBERS, "i32"),
    "marks": "*i8",
}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_kernel_compiles(capability: int) -> None:
    made = Kernels(["admit"], interpret=False)
    for chance in (False, True):
        for counted in (False, True):
            constants = {"CHANCE": chance, "COUNTED": counted, "BLOCK": module.BLOCK}
            made.compiled("admit", SIGNATURE, constants, capability)


@pytest.mark.parametrize(
    ("part", "given", "what"),
    [
        ("ids", torch.tensor([1, 1]), "admission.ids that repeat"),
        ("ids", torch.tensor([1.0, 2.0]), r"admission.ids are torch.float32 \[2\]"),
        ("counts", torch.tensor([1]), r"admission.counts are torch.int64 \[1\], want torch.int64 \[2\]"),
        ("steps", torch.ones(2, 1, dtype=torch.int64), r"admission.steps are torch.int64 \[2, 1\]"),
    ],
)
def test_counts_that_cannot_be_are_refused_before_anything_changes(
    device: torch.device, part: str, given: torch.Tensor, what: str
) -> None:
    for engine in both(device, admitting(ByCount(3), ByCount(3))):
        step(engine, batch_of([[1, 2, 2], [1, 2]]))
        before = state_of(engine)
        with pytest.raises(RuntimeError, match=f"table 't1': {what}"):
            engine.load_state_dict({**engine.state_dict(), f"t1.admission.{part}": given, "steps": torch.tensor(9)})
        assert state_of(engine) == before


def test_room_for_the_counts_of_a_state_is_made_before_anything_changes(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(stores_on_cpu, "BLOCK_BYTES", 1 << 12)
    for engine in both(device, admitting(ByCount(3), ByCount(3)), budget=60_000):
        step(engine, batch_of([[1, 2, 2], [1, 2]]))
        before = state_of(engine)
        count = 1500
        many = {"ids": torch.arange(count), "steps": torch.ones(count).long(), "counts": torch.ones(count).long()}
        given = {f"t1.admission.{name}": tensor for name, tensor in many.items()}
        with pytest.raises(BudgetError):
            engine.load_state_dict({**engine.state_dict(), **given})
        assert state_of(engine) == before
