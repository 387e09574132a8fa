"""Engines whose tables lie on a device against engines on the CPU."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.errors import BudgetError, GradientError, OptionError
from colonnade.train import engine as module
from colonnade.train.admission import ByCount, ReadOnly
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.eviction import Lru
from colonnade.train.gpu.group import DeviceGroup
from colonnade.train.initializers import Uniform
from colonnade.train.optimizers import Adagrad, Adam, RowWiseAdagrad
from colonnade.train.ragged_rows import RaggedRows
from colonnade.train.table_config import TableConfig
from tests.unit.train import test_feature_engine as fields
from tests.unit.train import test_late_gradients as late
from tests.unit.train.gpu.devices import DEVICES
from tests.unit.train.gpu.engines import interpreted

KEYS = [-1, 0, 1, 2**63 - 1, -(2**63), 77, -(2**40), 5, 6]
BATCH = 5


def features(**options: Any) -> list[EmbeddingFeature]:
    a = TableConfig("a", 3, initializer=Uniform(-1, 1), optimizer=Adagrad(0.1), **options)
    b = replace(a, name="b", repeats="mean", default=0.5)
    c = replace(a, name="c", embedding_dim=4, optimizer=RowWiseAdagrad(0.1))
    parts = [("f0", a, "sum"), ("f1", c, "mean"), ("f2", b, "max"), ("f3", a, "sqrtn"), ("f4", c, "none")]
    return [EmbeddingFeature(*part) for part in parts]


OUTPUTS = {"deep": ["f0", "f1", "f2"], "alone": ["f3"], "rows": ["f4"]}


def on_cpu(given: list[EmbeddingFeature], **options: Any) -> EmbeddingEngine:
    """An engine of loops."""
    pinned = [replace(f, table=replace(f.table, device="cpu")) for f in given]
    return EmbeddingEngine(pinned, OUTPUTS, **options)


def on_device(given: list[EmbeddingFeature], device: torch.device, **options: Any) -> EmbeddingEngine:
    engine = EmbeddingEngine(given, OUTPUTS, **options).to(device)
    assert all(isinstance(group, DeviceGroup) for group in engine.groups if group.configs[0].device is None)
    return engine


def batch_of(seed: int) -> dict[str, Ragged]:
    rng = np.random.default_rng(seed)
    made = {}
    for f in range(5):
        lengths = rng.integers(0, 4, BATCH)
        ids = torch.tensor([KEYS[k] for k in rng.integers(0, len(KEYS), lengths.sum())], dtype=torch.int64)
        weights = torch.from_numpy(rng.random(len(ids)).astype(np.float32)) if f == 3 else None
        made[f"f{f}"] = Ragged.of(ids, torch.tensor([0, *lengths.tolist()]).cumsum(0), weights=weights)
    return made


def train(engine: EmbeddingEngine, batches: list[int], lookups: int = 1) -> None:
    for seed in batches:
        for part in range(lookups):
            out = engine(batch_of(10 * seed + part))
            factors = {n: torch.arange(x.numel()).reshape(x.shape).float().sin().to(x.device) for n, x in out.items()}
            sum((out[n] * factors[n]).sum() for n in out).backward()
        engine.step()


def check_same(one: EmbeddingEngine, other: EmbeddingEngine) -> None:
    assert one.steps == other.steps
    batch = batch_of(99)
    one.eval()
    other.eval()
    for name, x in one(batch).items():
        torch.testing.assert_close(other(batch)[name].cpu(), x)
    one.train()
    other.train()
    for name in "abc":
        ids = one.table(name).ids()
        assert sorted(ids.tolist()) == sorted(other.table(name).ids().tolist())
        rows, there = other.table(name).read(torch.tensor(KEYS))
        want, known = one.table(name).read(torch.tensor(KEYS))
        assert there.tolist() == known.tolist()
        torch.testing.assert_close(rows.cpu(), want)


@pytest.mark.parametrize(
    "options", [{}, {"dtype": "bfloat16"}, {"admission": ByCount(2), "eviction": (Lru(4),)}], ids=str
)
def test_training_is_that_of_the_cpu(device: torch.device, options: dict[str, Any]) -> None:
    one, other = on_cpu(features(**options), evict_every=2), on_device(features(**options), device, evict_every=2)
    for engine in (one, other):
        train(engine, [0, 1], 2)
        train(engine, [2])
    check_same(one, other)
    evicted, theirs = one.take_evicted(), other.take_evicted()
    assert {n: x.tolist() for n, x in evicted.items()} == {n: x.tolist() for n, x in theirs.items()}


def test_state_moves_between_devices(device: torch.device) -> None:
    given = features(admission=ByCount(2))
    one, other = on_cpu(given), on_device(given, device)
    train(one, [0, 1, 2])
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    check_same(one, other)
    again = on_cpu(given)
    again.load_state_dict(other.state_dict())
    train(one, [3])
    train(other, [3])
    train(again, [3])
    check_same(one, other)
    check_same(one, again)


@pytest.mark.gpu
def test_an_engine_moves_with_all_it_knows() -> None:
    given = features(dtype="float16", admission=ByCount(2))
    one, other = EmbeddingEngine(given, OUTPUTS), EmbeddingEngine(given, OUTPUTS)
    used = []
    for step, place in enumerate(("cuda", "cpu", "cuda", "cuda")):
        other.to(place)
        used.append(other.budget.used)
        train(one, [step])
        train(other, [step])
    assert all(x.device.type == "cuda" for x in other(batch_of(0)).values())
    check_same(one, other)
    assert max(used[1:]) < 4 * min(used[1:])  # at first there are no rows


def test_a_group_that_moves_gives_back_what_it_and_its_admissions_took(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EmbeddingEngine(features(admission=ByCount(2)), OUTPUTS)
    train(other, [0, 1])
    held = other.budget.used
    assert held == sum(g.store.bytes + sum(a.bytes for a in g.admitters if a is not None) for g in other.groups)
    monkeypatch.setattr(module, "place_of", lambda *_: torch.device("cpu", 0))
    for _ in range(2):
        other._move(torch.device("cpu"))
        assert other.budget.used == held


def test_a_move_that_fails_leaves_every_table_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EmbeddingEngine(features(), OUTPUTS)
    train(other, [0])
    out, held, groups = other(batch_of(1)), other.budget.used, list(other.groups)
    monkeypatch.setattr(module, "place_of", lambda *_: torch.device("cpu", 0))
    with monkeypatch.context() as patch:
        moved = module.moved
        patch.setattr(module, "moved", lambda *given: moved(*given) if given[0] is groups[0] else refuse())
        with pytest.raises(BudgetError):
            other._move(torch.device("cpu"))
    assert other.groups == groups and other.budget.used == held
    out["alone"].sum().backward(retain_graph=True)
    assert other.step()
    other._move(torch.device("cpu"))
    assert other.groups[0] is not groups[0] and other.budget.used == held
    with pytest.raises(GradientError, match="looked up before their tables moved"):
        out["alone"].sum().backward()


def refuse() -> Any:
    raise BudgetError("tables would take more memory than they may")


def test_tables_on_both_sides(device: torch.device) -> None:
    given = [replace(f, table=replace(f.table, device="cpu")) if f.table.name == "c" else f for f in features()]
    one, other = on_cpu(given), on_device(given, device)
    assert [type(group) is DeviceGroup for group in other.groups] == [True, False]
    train(one, [0, 1, 2])
    train(other, [0, 1, 2])
    check_same(one, other)


def test_gradients_that_come_after_a_step_count_at_the_next(device: torch.device) -> None:
    for ours, theirs in late.OPTIMIZERS:
        late.check(EmbeddingEngine(late.features(ours)).to(device), late.LATE, theirs)


def test_tables_that_share_a_store_learn_as_if_each_were_alone(device: torch.device) -> None:
    """A table of which nothing was asked stands still, though its optimizer moves rows by zeros."""
    ids = torch.arange(late.NUM_IDS)
    engine, other = EmbeddingEngine(late.alike()).to(device), late.Apart(late.alike())
    for model in (engine, other):
        late.run(model, late.LATE, True)
    for name in "ab":
        (got, there), (want, known) = engine.table(name).read(ids), other.table(name).read(ids)
        assert torch.equal(there.cpu(), known)
        torch.testing.assert_close(got.cpu(), want)


def test_tables_that_stand_still(device: torch.device) -> None:
    one, other = on_cpu(features()), on_device(features(), device)
    for engine in (one, other):
        train(engine, [0])
        engine.freeze("a")
        train(engine, [1])
        engine.freeze("a", False)
        train(engine, [2])
    check_same(one, other)


def test_ids_that_are_not_admitted(device: torch.device) -> None:
    other = on_device(features(admission=ReadOnly()), device)
    train(other, [0, 1])
    assert [len(other.table(name)) for name in "abc"] == [0, 0, 0]


def test_gradients_that_are_not_finite_are_an_error_before_anything_changes(device: torch.device) -> None:
    other = on_device(features(), device)
    train(other, [0])
    before = other.table("c").read(torch.tensor(KEYS))[0]
    rows = other(batch_of(1))["rows"]
    rows.backward(torch.full_like(rows, torch.inf))
    with pytest.raises(GradientError, match="table 'c'"):
        other.step()
    assert torch.equal(before, other.table("c").read(torch.tensor(KEYS))[0])


def test_too_little_memory(device: torch.device) -> None:
    other = on_device(features(), device, budget=100_000)
    with pytest.raises(BudgetError):
        other(batch_of(0))
    assert [len(other.table(name)) for name in "abc"] == [0, 0, 0]


def test_rows_by_id(device: torch.device) -> None:
    table = on_device(features(), device).table("b")
    ids = torch.tensor([-1, 0, 2**63 - 1, -(2**63)])
    table.write(ids, torch.arange(12.0).reshape(4, 3))
    read, there = table.read(torch.tensor([0, 5, -1, 0]))
    assert read.tolist() == [[3, 4, 5], [0.5, 0.5, 0.5], [0, 1, 2], [3, 4, 5]]
    assert there.tolist() == [True, False, True, True]
    assert table.delete(torch.tensor([0, 0, 9])) == 1 and len(table) == 3
    table.clear()
    assert len(table) == 0 and table.ids().tolist() == []


@pytest.mark.parametrize("device", DEVICES)
def test_fields_in_and_numbers_out(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = fields.engine(initializer=Uniform(-1, 1))
    if device == "cpu":
        monkeypatch.setattr(module, "group_of", interpreted)
    other = fields.engine(initializer=Uniform(-1, 1)).to(device)
    assert all(isinstance(group, DeviceGroup) for group in other.embedding.groups)
    for _ in range(2):
        for made in (one, other):
            values = [x.values if isinstance(x, RaggedRows) else x for x in made(fields.batch()).values()]
            sum(x.square().sum() for x in values if x.requires_grad).backward()
            made.step()
    theirs = other(fields.batch())
    for name, x in one(fields.batch()).items():
        ours, got = (y.values if isinstance(y, RaggedRows) else y for y in (x, theirs[name]))
        torch.testing.assert_close(got.cpu(), ours)


def test_a_device_that_there_is_not() -> None:
    with pytest.raises(OptionError, match="want cpu or cuda"):
        EmbeddingEngine([EmbeddingFeature("f", TableConfig("t", 3, device="tpu", optimizer=Adam()))])
