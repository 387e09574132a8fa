"""Optimizers: the loops against torch's own on coalesced gradients, and against the reference rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.errors import GradientError, OptionError
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.gradients import GradientPolicy
from colonnade.train.initializers import Constant, Normal
from colonnade.train.optimizers import (
    Adagrad,
    Adam,
    AdamW,
    Cosine,
    Exponential,
    Ftrl,
    Optimizer,
    RowWiseAdagrad,
    Schedule,
    Sgd,
    WarmUp,
)
from colonnade.train.table_config import TableConfig

ALL: list[Optimizer] = [
    Sgd(0.1),
    Sgd(0.1, 0.02),
    Adagrad(0.1),
    Adagrad(0.1, 0.05, 0.02, 0.1, 1e-6),
    RowWiseAdagrad(0.1),
    RowWiseAdagrad(0.1, 0.5, 1e-3),
    Adam(0.1),
    Adam(0.1, 0.8, 0.95, 1e-3, 0.02),
    AdamW(0.1),
    AdamW(0.1, weight_decay=0.3),
    Ftrl(0.1),
    Ftrl(0.1, 0.2, 0.05, 0.1, 0.3),
]


def engine_of(optimizer: Optimizer, dim: int = 3, dtype: str = "float32", **options: object) -> EmbeddingEngine:
    gradients = options.pop("gradients", None)
    table = TableConfig("t", dim, dtype, Normal(0, 1), optimizer, **options)  # type: ignore[arg-type]
    return EmbeddingEngine([EmbeddingFeature("f", table)], gradients=gradients)  # type: ignore[arg-type]


def bag(ids: list[int], lengths: list[int] | None = None) -> dict[str, Ragged]:
    lengths = [1] * len(ids) if lengths is None else lengths
    return {"f": Ragged.of(torch.tensor(ids, dtype=torch.int64), torch.tensor([0, *lengths]).cumsum(0))}


def trained(engine: EmbeddingEngine, batches: list[list[int]], dim: int, scale: float = 1.0) -> dict[int, torch.Tensor]:
    """The rows after a step for each batch, with a fixed gradient for each place."""
    for number, ids in enumerate(batches):
        out = engine(bag(ids))["f"]
        out.backward(gradient_of(number, len(ids), dim) * scale)
        engine.step(scale)
    seen = sorted({id_ for ids in batches for id_ in ids})
    rows, there = engine.table("t").read(torch.tensor(seen))
    assert there.all()
    return dict(zip(seen, rows, strict=True))


def gradient_of(step: int, count: int, dim: int) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(step))


BATCHES = [[3, -1, 3, 7, 3], [7, 0, -1], [5, 5, 5, 5], [3, 0, 7, -1, 5]]


@pytest.mark.parametrize("optimizer", ALL, ids=str)
@pytest.mark.parametrize("dim", [1, 8, 13, 16])
def test_rows_are_those_of_the_reference_on_coalesced_gradients(optimizer: Optimizer, dim: int) -> None:
    engine = engine_of(optimizer, dim)
    found = trained(engine, BATCHES, dim)
    rows, states = {}, {}
    for ids in BATCHES:
        for id_ in ids:
            new, _ = engine_of(Sgd(0.1), dim).table("t").read(torch.tensor([id_]))
            fresh = engine_of(optimizer, dim)
            fresh(bag([id_]))
            rows[id_] = fresh.table("t").read(torch.tensor([id_]))[0].double()
            states[id_] = tuple(
                torch.full((1, dim if s.per_value else 1), s.initial, dtype=torch.float64) for s in optimizer.states
            )
            assert not new.any()  # reading makes no row
    for number, ids in enumerate(BATCHES):
        grads = gradient_of(number, len(ids), dim).double()
        for id_ in set(ids):
            total = grads[[k for k, x in enumerate(ids) if x == id_]].sum(0, keepdim=True)
            rows[id_] = optimizer.reference(rows[id_], states[id_], total, number + 1, optimizer.rate(number + 1))
    for id_, row in found.items():
        torch.testing.assert_close(row.double(), rows[id_][0], rtol=2e-5, atol=2e-6)


TORCH = [
    (Sgd(0.1, 0.02), lambda w: torch.optim.SGD(w, lr=0.1, weight_decay=0.02)),
    (Adagrad(0.1, 0.05, 0.02, 0.1, 1e-6), lambda w: torch.optim.Adagrad(w, 0.1, 0.05, 0.02, 0.1, 1e-6)),
    (Adam(0.1, 0.8, 0.95, 1e-3, 0.02), lambda w: torch.optim.Adam(w, 0.1, (0.8, 0.95), 1e-3, 0.02)),
    (AdamW(0.1, weight_decay=0.3), lambda w: torch.optim.AdamW(w, 0.1, weight_decay=0.3)),
]


@pytest.mark.parametrize(("optimizer", "theirs"), TORCH, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_where_every_row_is_touched_rows_are_those_of_torchs_optimizer(optimizer, theirs, scale) -> None:  # type: ignore[no-untyped-def]
    ids = [0, 1, 2, 1]
    engine = engine_of(optimizer)
    engine(bag(ids))
    dense = torch.nn.Parameter(engine.table("t").read(torch.arange(3))[0])
    engine.zero_grad()
    other = theirs([dense])
    for number in range(5):
        torch.nn.functional.embedding(torch.tensor(ids), dense).backward(gradient_of(number, 4, 3))
        other.step()
        other.zero_grad()
    found = trained(engine, [ids] * 5, 3, scale)
    torch.testing.assert_close(torch.stack([found[k] for k in range(3)]), dense.detach(), rtol=1e-5, atol=1e-6)


def one_step(optimizer: Optimizer, grads: list[list[float]], dtype: str = "float32", start: float = 1.0) -> list[float]:
    """Row 0 after one step in which id 0 occurs once for each gradient."""
    dim = len(grads[0])
    table = TableConfig("t", dim, dtype, Constant(start), optimizer)
    engine = EmbeddingEngine([EmbeddingFeature("f", table)])
    engine(bag([0] * len(grads)))["f"].backward(torch.tensor(grads))
    engine.step()
    row: list[float] = engine.table("t").read(torch.tensor([0]))[0][0].tolist()
    return row


def test_repeated_ids_are_coalesced_before_adagrad() -> None:
    assert one_step(Adagrad(1.0), [[1.0], [1.0]]) == [0.0]


def test_eps_matters_where_gradients_are_small() -> None:
    assert one_step(Adagrad(1.0, eps=1e-10), [[1e-9]]) == pytest.approx([0.0909], abs=1e-4)
    assert one_step(Adagrad(1.0, eps=1e-8), [[1e-9]]) == pytest.approx([0.9091], abs=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("optimizer", ALL, ids=str)
def test_a_gradient_of_zero_makes_no_nan_in_narrow_tables(optimizer: Optimizer, dtype: str) -> None:
    assert all(math.isfinite(x) for x in one_step(optimizer, [[0.0, 1e-9]], dtype))


def test_row_wise_adagrad_takes_the_mean_square_of_the_sum() -> None:
    assert one_step(RowWiseAdagrad(1.0), [[1.0, 3.0], [1.0, 3.0]]) == pytest.approx([0.5528, -0.3416], abs=1e-4)


def test_narrow_rows_gather_small_steps_in_float32_states() -> None:
    table = TableConfig("t", 8, "bfloat16", Constant(1.0), Adagrad(0.1))
    engine = EmbeddingEngine([EmbeddingFeature("f", table)])
    for _ in range(3):
        engine(bag([4] * 1000, [1000]))["f"].sum().backward()
        engine.step()
    rows = engine.groups[0].store.rows_of(0)
    assert (engine.groups[0].store.states(rows) == 3e6).all()


def test_accumulated_steps_are_one_step() -> None:
    found = []
    for parts in ([[3, 3, 4, 5]], [[3, 3], [4, 5]], [[3], [3], [4], [5]]):
        engine, at = engine_of(Adam(0.1)), 0
        engine(bag([9]))  # without a backward pass: nothing is learned
        for ids in parts:
            engine(bag(ids))["f"].backward(gradient_of(0, 4, 3)[at : at + len(ids)])
            at += len(ids)
        engine.step()
        found.append(engine.table("t").read(torch.tensor([3, 4, 5, 9]))[0])
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def test_the_mean_of_repeats() -> None:
    found = []
    for repeats, grads in (("mean", [[2.0], [4.0], [1.0]]), ("sum", [[3.0], [0.0], [1.0]])):
        engine = engine_of(Sgd(0.5), 1, repeats=repeats)
        engine(bag([1, 1, 2]))["f"].backward(torch.tensor(grads))
        engine.step()
        found.append(engine.table("t").read(torch.tensor([1, 2]))[0])
    assert torch.equal(*found)


def test_bias_is_corrected_for_each_table_by_its_own_steps() -> None:
    tables = [TableConfig(name, 2, initializer=Constant(0.0), optimizer=Adam(0.1)) for name in "ab"]
    engine = EmbeddingEngine([EmbeddingFeature(t.name, t) for t in tables])
    none = Ragged.of(torch.zeros(0, dtype=torch.int64), torch.tensor([0, 0]))
    one = Ragged.of(torch.tensor([1]), torch.tensor([0, 1]))
    for batch in ({"a": one, "b": none}, {"a": one, "b": none}, {"a": one, "b": one}):
        sum(x.sum() for x in engine(batch).values()).backward()
        engine.step()
    assert len(engine.groups) == 1 and engine.groups[0].updates.tolist() == [3, 1]
    assert engine.table("b").read(torch.tensor([1]))[0].flatten().tolist() == pytest.approx([-0.1, -0.1], rel=1e-5)


BAD = torch.tensor([[1.0, torch.nan], [1.0, 1.0], [torch.inf, 1.0]])


def test_gradients_that_are_not_finite_are_an_error_before_anything_changes() -> None:
    engine = engine_of(Sgd(1.0), 2)
    engine(bag([1, 2, 3]))["f"].backward(BAD)
    before = engine.table("t").read(torch.tensor([1, 2, 3]))[0]
    with pytest.raises(GradientError, match=r"table 't': 2 ids, among them \[1, 3\]"):
        engine.step()
    assert torch.equal(before, engine.table("t").read(torch.tensor([1, 2, 3]))[0])


@pytest.mark.parametrize(
    ("policy", "moved"),
    [
        (GradientPolicy("skip_rows"), [[0, 0], [1, 1], [0, 0]]),
        (GradientPolicy("skip_step"), [[0, 0], [0, 0], [0, 0]]),
        (GradientPolicy("clip", max_value=0.5), [[0.5, 0], [0.5, 0.5], [0.5, 0.5]]),
        (GradientPolicy("skip_rows", max_row_norm=1.0), [[0, 0], [0.70710, 0.70710], [0, 0]]),
        (GradientPolicy("skip_rows", max_norm=0.1), [[0, 0], [0.070710, 0.070710], [0, 0]]),
    ],
    ids=str,
)
def test_gradients_that_are_not_finite_are_never_stored(policy: GradientPolicy, moved: list[list[float]]) -> None:
    engine = engine_of(Sgd(1.0), 2, gradients=policy)
    out = engine(bag([1, 2, 3]))["f"]
    before = out.detach().clone()
    out.backward(BAD)
    assert engine.step() == (policy.not_finite != "skip_step")
    torch.testing.assert_close(before - engine.table("t").read(torch.tensor([1, 2, 3]))[0], torch.tensor(moved).float())


def test_a_table_that_the_loss_does_not_depend_on_stands_still() -> None:
    tables = [
        TableConfig(name, dim, initializer=Constant(0.0), optimizer=Adam(0.1)) for name, dim in (("a", 2), ("b", 3))
    ]
    engine = EmbeddingEngine([EmbeddingFeature(t.name, t) for t in tables])
    one = Ragged.of(torch.tensor([1]), torch.tensor([0, 1]))
    for parts in ("ab", "a"):
        made = engine({"a": one, "b": one})
        sum(made[name].sum() for name in parts).backward()
        engine.step()
    assert [group.updates.tolist() for group in engine.groups] == [[2], [1]]
    assert engine.table("b").read(torch.tensor([1]))[0].flatten().tolist() == pytest.approx([-0.1] * 3, rel=1e-5)


def test_schedules() -> None:
    warm = WarmUp(1.0, 4, Exponential(1.0, 0.5))
    assert [warm.at(step) for step in range(1, 8)] == [0.25, 0.5, 0.75, 1.0, 1.0, 0.5, 0.25]
    cosine = Cosine(1.0, 2, 0.2)
    assert [cosine.at(step) for step in (1, 2, 3, 9)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    steady, changing = (trained(engine_of(Sgd(lr)), [[1], [1]], 3)[1] for lr in (0.25, warm))
    grads = gradient_of(1, 1, 3)[0]
    torch.testing.assert_close(steady - changing, 0.25 * grads)


@dataclass(frozen=True)
class Missing(Schedule):
    """Knows the first step alone."""

    def at(self, step: int) -> float:
        return 0.1 if step == 1 else math.nan


@pytest.mark.parametrize(
    "optimizer", [Sgd(Exponential(0.1, 1e300)), Ftrl(Cosine(0.1, 1)), Adam(Missing()), Adagrad(Exponential(0.1, 1e39))]
)
def test_a_rate_that_no_step_can_take_is_said_before_anything_changes(optimizer: Optimizer) -> None:
    """Though another group of tables would have learned before."""
    first = TableConfig("first", 3, optimizer=Adagrad(0.1))
    engine = EmbeddingEngine(
        [EmbeddingFeature("f", first), EmbeddingFeature("g", TableConfig("t", 2, "float32", optimizer=optimizer))]
    )
    batch = {name: bag([1, 2])["f"] for name in "fg"}

    def learn() -> None:
        sum(out.sum() for out in engine(batch).values()).backward()
        engine.step()

    learn()
    while engine.steps < 3:
        before = engine.state_dict()
        try:
            learn()
        except OptionError as error:
            assert "a schedule whose learning rate cannot be taken" in str(error)
            break
    else:
        pytest.fail("every rate was taken")
    after = engine.state_dict()
    assert all(torch.equal(x, after[name]) for name, x in before.items() if not name.endswith("use"))
    assert engine.steps == before["steps"] and all(x.isfinite().all() for x in after.values())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sgd(0.1, -1.0),
        lambda: Adagrad(0.1, eps=-1e-8),
        lambda: RowWiseAdagrad(0.1, -1.0),
        lambda: Adam(0.1, beta1=1.0),
        lambda: Ftrl(0.1, 0.0),
        lambda: Ftrl(0.1, l1=-1.0),
        lambda: Sgd(-0.1),
        lambda: Adam(math.nan),
        lambda: RowWiseAdagrad(math.inf),
        lambda: Adagrad(1e39),
        lambda: Sgd(10**400),
        lambda: AdamW(None),  # type: ignore[arg-type]
        lambda: Adagrad("0.1"),  # type: ignore[arg-type]
        lambda: Ftrl(0.0),
        lambda: Ftrl(1e-50),
        lambda: Adagrad(eps=math.nan),
        lambda: Adagrad(initial_accumulator_value=math.inf),
        lambda: Cosine(0.1, 0),
        lambda: Exponential(0.1, 0.5, 0),
        lambda: Exponential(0.1, -0.5),
        lambda: WarmUp(0.1, -1),
        lambda: EmbeddingEngine([EmbeddingFeature("f", TableConfig("t", 2))], evict_every=-1),
        lambda: GradientPolicy("ignore"),
        lambda: GradientPolicy("clip"),
        lambda: GradientPolicy(max_norm=0.0),
    ],
)
def test_settings_that_cannot_work_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError):
        make()


def test_settings_are_immutable() -> None:
    assert replace(Adam(), lr=0.5).lr == 0.5
    with pytest.raises(AttributeError):
        Adam().lr = 0.5  # type: ignore[misc]
