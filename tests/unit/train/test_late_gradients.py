"""Gradients that come after a step count at the next, as torch's do."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core.ragged import Ragged
from colonnade.errors import GradientError
from colonnade.train.admission import ByCount
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.initializers import Constant, Normal
from colonnade.train.optimizers import Adagrad, Adam, Sgd
from colonnade.train.table_config import TableConfig

NUM_IDS, WIDTHS = 5, {"a": 2, "b": 3}
Change = tuple[Any, ...]
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("look up"), st.lists(st.integers(0, NUM_IDS - 1), min_size=1, max_size=4)),
        st.tuples(st.just("learn"), st.integers(0, 3), st.sampled_from(["a", "b", "ab"]), st.booleans()),
        st.tuples(st.sampled_from(["step", "step", "zero", "drop"])),
    ),
    max_size=14,
)


def features(optimizer: Any) -> list[EmbeddingFeature]:
    tables = {n: TableConfig(n, dim, initializer=Normal(0, 1), optimizer=optimizer) for n, dim in WIDTHS.items()}
    return [EmbeddingFeature(name, table, "none") for name, table in tables.items()]


def batch_of(ids: list[int]) -> dict[str, Ragged]:
    return {name: Ragged.of(torch.tensor(ids), torch.tensor([0, len(ids)])) for name in WIDTHS}


def learn(out: dict[str, torch.Tensor], names: str, keep: bool) -> None:
    factors = {n: torch.arange(1.0, 1 + out[n].numel()).reshape(out[n].shape).to(out[n].device) for n in names}
    torch.stack([(out[n] * factors[n]).sum() for n in names]).sum().backward(retain_graph=keep)


class OnTorch:
    """Whole tables as parameters."""

    def __init__(self, engine: EmbeddingEngine, optimizer: type[torch.optim.Optimizer]) -> None:
        ids = torch.arange(NUM_IDS)
        self.weights = {n: torch.nn.Parameter(engine.table(n).read(ids)[0].cpu()) for n in WIDTHS}
        self._optimizer = optimizer(self.weights.values(), lr=0.1)  # type: ignore[call-arg]

    def __call__(self, ids: list[int]) -> dict[str, torch.Tensor]:
        return {n: torch.nn.functional.embedding(torch.tensor(ids), weight) for n, weight in self.weights.items()}

    def zero_grad(self) -> None:
        self._optimizer.zero_grad()

    def step(self) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad()


def run(model: Any, changes: list[Change], batched: bool) -> None:
    """Do what the changes say; a graph that is used up or dropped is passed over."""
    outs: list[dict[str, torch.Tensor] | None] = []
    for kind, *given_ in changes:
        if kind == "look up":
            outs.append(model(batch_of(given_[0]) if batched else given_[0]))
        elif kind == "learn":
            which, names, keep = given_
            out = outs[which] if which < len(outs) else None
            if out is not None:
                learn(out, names, keep)
                outs[which] = out if keep else None
        elif kind == "drop":
            outs = [None] * len(outs)
        else:
            {"step": model.step, "zero": model.zero_grad}[kind]()


def check(engine: EmbeddingEngine, changes: list[Change], optimizer: type[torch.optim.Optimizer]) -> None:
    """The engine's rows become what torch's do."""
    engine(batch_of(list(range(NUM_IDS))))
    engine.step()
    torchs = OnTorch(engine, optimizer)
    run(engine, changes, True)
    run(torchs, changes, False)
    for name, weight in torchs.weights.items():
        rows, there = engine.table(name).read(torch.arange(NUM_IDS))
        assert there.all()
        torch.testing.assert_close(rows.cpu(), weight.detach(), rtol=1e-4, atol=1e-5)


OPTIMIZERS = [(Sgd(0.1), torch.optim.SGD), (Adagrad(0.1), torch.optim.Adagrad)]


@pytest.mark.parametrize(("ours", "theirs"), OPTIMIZERS)
@given(CHANGES)
def test_rows_learn_what_torch_learns(ours: Any, theirs: type[torch.optim.Optimizer], changes: list[Change]) -> None:
    check(EmbeddingEngine(features(ours)), changes, theirs)


LATE: list[Change] = [
    ("look up", [1, 2, 2]),
    ("look up", [2, 3]),
    ("look up", [4]),
    ("learn", 0, "ab", True),
    ("step",),
    ("learn", 1, "a", True),
    ("learn", 1, "ab", False),
    ("learn", 0, "b", True),
    ("step",),
    ("step",),
    ("learn", 0, "ab", False),
    ("zero",),
    ("learn", 2, "b", True),
    ("learn", 2, "b", False),
    ("step",),
]


@pytest.mark.parametrize(("ours", "theirs"), OPTIMIZERS)
def test_a_gradient_that_comes_after_a_step_counts_at_the_next(ours: Any, theirs: type[torch.optim.Optimizer]) -> None:
    check(EmbeddingEngine(features(ours)), LATE, theirs)


class Apart:
    """An engine for each table: a gradient of one says nothing of the other."""

    def __init__(self, features: list[EmbeddingFeature]) -> None:
        self._engines = {feature.name: EmbeddingEngine([feature]) for feature in features}

    def __call__(self, batch: dict[str, Ragged]) -> dict[str, torch.Tensor]:
        return {name: engine({name: batch[name]})[name] for name, engine in self._engines.items()}

    def table(self, name: str) -> Any:
        return self._engines[name].table(name)

    def zero_grad(self) -> None:
        for engine in self._engines.values():
            engine.zero_grad()

    def step(self) -> None:
        for engine in self._engines.values():
            engine.step()


def check_apart(engine: EmbeddingEngine, changes: list[Change]) -> None:
    """The engine's tables learn what they would learn if each were alone."""
    apart = Apart(list(engine.features))
    run(engine, changes, True)
    run(apart, changes, True)
    ids = torch.arange(NUM_IDS)
    for feature in engine.features:
        for got, want in zip(engine.table(feature.name).read(ids), apart.table(feature.name).read(ids), strict=True):
            assert torch.equal(got.cpu(), want), feature.name


def alike() -> list[EmbeddingFeature]:
    """Tables that share a store, whose rows move by zeros too."""
    return [
        EmbeddingFeature(n, TableConfig(n, 3, optimizer=Adam(0.1, weight_decay=0.1)), pooling, lists)
        for n, pooling, lists in (("a", "none", False), ("b", "sum", False))
    ]


@given(CHANGES)
def test_tables_that_share_a_store_learn_as_if_each_were_alone(changes: list[Change]) -> None:
    engine = EmbeddingEngine(alike())
    assert len(engine.groups) == 1
    check_apart(engine, changes)


def test_a_table_of_which_nothing_was_asked_stands_still() -> None:
    """Though a table of the same store learns, in the same output of lists or not."""
    a, b, c = (TableConfig(n, 2, initializer=Constant(1.0), optimizer=Sgd(1.0, weight_decay=0.5)) for n in "abc")
    parts = [("f", a, "sum", False), ("g", b, "mean", False), ("l", c, "max", True), ("m", b, "sum", True)]
    engine = EmbeddingEngine([EmbeddingFeature(*part) for part in parts], {n: [n] for n in "fgl"})
    ids, ends = torch.tensor([1, 2]), torch.tensor([0, 2])
    batch = {n: Ragged.of(ids, ends) for n in "fg"} | {n: Ragged.of(ids, torch.tensor([0, 1]), ends) for n in "lm"}
    for output, moved in (("f", "a"), ("l", "c"), ("g", "b")):
        before = {n: engine.table(n).read(ids)[0] for n in "abc"}
        out = engine(batch)
        if output == "f":
            before = {n: torch.ones(2, 2) for n in "abc"}
        out[output].sum().backward()
        engine.step()
        assert [n for n in "abc" if not torch.equal(engine.table(n).read(ids)[0], before[n])] == [moved]
    assert [int(engine.state_dict()[f"{n}.updates"]) for n in "abc"] == [1, 1, 1]


def one(**options: Any) -> EmbeddingEngine:
    table = TableConfig("t", 2, initializer=Constant(1.0), optimizer=Sgd(1.0), **options)
    return EmbeddingEngine([EmbeddingFeature("f", table)])


def look_up(engine: EmbeddingEngine, *ids: int) -> torch.Tensor:
    (out,) = engine({"f": Ragged.of(torch.tensor(ids), torch.arange(len(ids) + 1))}).values()
    assert isinstance(out, torch.Tensor)
    return out


def rows_of(engine: EmbeddingEngine, *ids: int) -> list[float]:
    values: list[float] = engine.table("t").read(torch.tensor(ids))[0][:, 0].tolist()
    return values


def test_outputs_that_are_dropped_are_freed_by_the_next_step() -> None:
    engine = one()
    out = look_up(engine, 1)
    (lookup,) = engine.groups[0].pending._lookups
    values = weakref.ref(lookup.values)
    del lookup
    engine.step()
    gc.collect()
    assert values() is not None and not len(engine.groups[0].pending)
    del out
    assert values() is None


def test_an_engine_ends_with_its_last_user_though_gradients_wait() -> None:
    engine = one()
    first, second = look_up(engine, 1), look_up(engine, 2)
    engine.step()
    first.sum().backward()
    store = weakref.ref(engine.groups[0].store)
    del engine
    assert store() is None
    second.sum().backward()  # nobody learns it


def test_a_gradient_goes_to_the_row_that_its_id_has_at_the_step() -> None:
    engine = one(default=0.5)
    out = look_up(engine, 1, 2, 3)
    engine.step()
    engine.table("t").delete(torch.tensor([1, 2]))
    engine.table("t").write(torch.tensor([9, 2]), torch.full((2, 2), 7.0))  # in rows that were others'
    out.sum().backward()
    engine.step()
    assert rows_of(engine, 1, 2, 3, 9) == [0.5, 6.0, 0.0, 7.0]


def test_what_was_not_admitted_learns_nothing_though_it_has_a_row_by_then() -> None:
    engine = one(admission=ByCount(2))
    look_up(engine, 5, 5)
    out = look_up(engine, 1, 5)
    engine.step()
    look_up(engine, 1)
    engine.table("t").delete(torch.tensor([77]))
    engine.table("t").delete(torch.tensor([5]))  # rows are looked for anew
    assert rows_of(engine, 1) == [1.0]
    out.sum().backward()
    engine.step()
    assert rows_of(engine, 1) == [1.0]


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("stepped", [False, True])
def test_a_gradient_of_rows_from_before_a_state_was_loaded_is_an_error(learned: bool, stepped: bool) -> None:
    engine = one()
    out = look_up(engine, 1)
    if learned:
        out.sum().backward(retain_graph=True)
    if stepped:
        engine.step()
    engine.load_state_dict(engine.state_dict())
    before = rows_of(engine, 1)
    for _ in range(2):
        with pytest.raises(GradientError, match=r"looked up before a state was loaded\n.*tables 't'"):
            out.sum().backward(retain_graph=True)
    engine.step()
    assert rows_of(engine, 1) == before
    look_up(engine, 1).sum().backward()
    engine.step()
    assert rows_of(engine, 1) == [before[0] - 1]
