"""The engine against torch's EmbeddingBag on a dense copy, its modes, its state, its errors."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.core.ragged import Ragged
from colonnade.errors import BudgetError, FeedError, OptionError
from colonnade.train.admission import ByCount
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.eviction import ByAge
from colonnade.train.ids import pack
from colonnade.train.initializers import Constant, Normal
from colonnade.train.optimizers import Adagrad, Adam, Sgd
from colonnade.train.table_config import TableConfig

KEYS = [-1, 0, 1, 2**63 - 1, -(2**63), 77, -(2**40)]


def ids_of(rows: list[list[int]], weights: list[float] | None = None) -> Ragged:
    values = torch.tensor([x for row in rows for x in row], dtype=torch.int64)
    offsets = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    return Ragged.of(values, offsets, weights=weights)


ROWS = st.lists(st.lists(st.integers(0, len(KEYS) - 1), max_size=6), min_size=3, max_size=3)


@given(st.lists(ROWS, min_size=4, max_size=4), st.sampled_from(["sum", "mean", "max"]), st.integers(1, 3))
def test_a_step_is_that_of_an_embedding_bag_on_a_dense_copy(
    batches: list[list[list[int]]], pooling: str, steps: int
) -> None:
    """Two features share a table, two have one of another layout; all in one output."""
    a, b = (TableConfig(n, d, initializer=Normal(0, 1), optimizer=Sgd(0.1)) for n, d in (("a", 4), ("b", 5)))
    features = [EmbeddingFeature(f"f{k}", t, pooling) for k, t in enumerate((a, b, a, b))]
    engine = EmbeddingEngine(features, {"deep": [f.name for f in features], "alone": ["f2"]})
    keys = torch.tensor(KEYS)
    engine.train()
    engine({f.name: ids_of([KEYS, [], []]) for f in features})
    engine.zero_grad()
    dense = {n: torch.nn.Parameter(engine.table(n).read(keys)[0]) for n in "ab"}
    optimizer = torch.optim.SGD(dense.values(), lr=0.1)
    for _ in range(steps):
        given = {
            f.name: ids_of([[KEYS[k] for k in row] for row in rows]) for f, rows in zip(features, batches, strict=True)
        }
        made = engine(given)
        parts = []
        for feature, rows in zip(features, batches, strict=True):
            flat = ids_of(rows)
            bags = torch.nn.functional.embedding_bag(
                flat.values, dense[feature.table.name], flat.offsets[0][:-1], mode=pooling
            )
            parts.append(bags)
        want = torch.cat(parts, 1)
        torch.testing.assert_close(made["deep"], want)
        torch.testing.assert_close(made["alone"], parts[2])
        factors = torch.arange(want.numel()).reshape(want.shape).float().sin()
        loss = (made["deep"] * factors).sum() + made["alone"].square().sum()
        (loss, other) = (loss, (want * factors).sum() + parts[2].square().sum())
        loss.backward()
        optimizer.zero_grad()
        other.backward()
        engine.step()
        optimizer.step()
    for name, weight in dense.items():
        torch.testing.assert_close(engine.table(name).read(keys)[0], weight.detach(), rtol=1e-4, atol=1e-5)


def one(pooling: str = "sum", **options: object) -> EmbeddingEngine:
    return EmbeddingEngine([EmbeddingFeature("f", TableConfig("t", 3, **options), pooling)])  # type: ignore[arg-type]


def test_in_eval_mode_nothing_changes() -> None:
    engine = one(default=0.25)
    engine({"f": ids_of([[1], [2]])})["f"].sum().backward()
    engine.eval()
    with pytest.raises(OptionError, match="rows learn in training alone"):
        engine.step()
    engine.zero_grad()
    assert engine.step()
    out = engine({"f": ids_of([[1], [9], []])})["f"]
    assert not out.requires_grad and out[1].tolist() == [0.25] * 3 and out[2].tolist() == [0.0] * 3
    assert engine.table("t").ids().tolist() == [1, 2] and not len(engine.groups[0].pending)
    store = engine.groups[0].store
    assert store.counts(store.rows_of(0)).tolist() == [1, 1]


def test_gradients_of_weights_reach_who_made_them() -> None:
    engine = one("mean", initializer=Normal(0, 1))
    weights = torch.tensor([0.5, 2.0], requires_grad=True)
    batch = {"f": Ragged.of(torch.tensor([1, 2]), torch.tensor([0, 2]), weights=weights)}
    engine(batch)["f"].sum().backward()
    rows = engine.table("t").read(torch.tensor([1, 2]))[0].sum(1)
    want = (rows - (rows * weights.detach()).sum() / 2.5) / 2.5
    torch.testing.assert_close(weights.grad, want)


def test_a_feature_that_is_not_pooled_has_a_row_for_each_id() -> None:
    engine = one("none", initializer=Normal(0, 1), optimizer=Sgd(1.0))
    out = engine({"f": ids_of([[1, 2, 1], [], [2]])})["f"]
    assert out.shape == (4, 3) and torch.equal(out[0], out[2]) and torch.equal(out[1], out[3])
    before = out.detach().clone()
    out.sum().backward()
    engine.step()
    torch.testing.assert_close(engine.table("t").read(torch.tensor([1, 2]))[0], before[:2] - 2)


def test_a_frozen_table_stands_still() -> None:
    engine = one(initializer=Normal(0, 1), optimizer=Sgd(1.0))
    engine({"f": ids_of([[1]])})["f"].sum().backward()
    engine.step()
    before = engine.table("t").read(torch.tensor([1]))[0]
    engine.freeze("t")
    engine({"f": ids_of([[1], [5]])})["f"].sum().backward()
    engine.step()
    assert torch.equal(before, engine.table("t").read(torch.tensor([1]))[0]) and len(engine.table("t")) == 1
    engine.freeze("t", False)
    engine({"f": ids_of([[1], [5]])})["f"].sum().backward()
    engine.step()
    torch.testing.assert_close(before - 1, engine.table("t").read(torch.tensor([1]))[0])
    assert len(engine.table("t")) == 2


def test_a_row_that_is_deleted_between_lookup_and_step_learns_nothing() -> None:
    engine = one(initializer=Constant(1.0), optimizer=Sgd(1.0))
    engine({"f": ids_of([[1], [2]])})["f"].sum().backward()
    engine.table("t").delete(torch.tensor([1]))
    engine.table("t").write(torch.tensor([3]), torch.full((1, 3), 7.0))  # in the row that was 1's
    engine.step()
    rows, there = engine.table("t").read(torch.tensor([1, 2, 3]))
    assert rows[:, 0].tolist() == [0.0, 0.0, 7.0] and there.tolist() == [False, True, True]


def test_works_in_autocast_with_a_dense_network() -> None:
    engine = one(initializer=Normal(0, 1), optimizer=Sgd(0.1), dtype="bfloat16")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(engine({"f": ids_of([[1, 2], [1]])})["f"]).float().square().sum()
    loss.backward()
    before = engine.table("t").read(torch.tensor([1]))[0]
    assert engine.step() and not torch.equal(before, engine.table("t").read(torch.tensor([1]))[0])


def trained(engine: EmbeddingEngine, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = [rng.integers(0, 9, 4).tolist() for _ in range(3)]
        engine({"f": ids_of(rows), "g": ids_of(rows)})["f"].square().sum().backward()
        engine.step()
        engine.evict()


def resumable(name: str = "a", **options: object) -> EmbeddingEngine:
    a = TableConfig(
        name, 3, "bfloat16", Normal(0, 1), Adam(0.1), key="a", admission=ByCount(3), eviction=(ByAge(2),), **options
    )  # type: ignore[arg-type]
    b = TableConfig("b", 4, "float16", optimizer=Adagrad(0.1))
    return EmbeddingEngine([EmbeddingFeature("f", a), EmbeddingFeature("g", b, "mean")])


def test_a_run_that_is_resumed_goes_on_with_the_same_bits() -> None:
    whole = resumable()
    trained(whole, range(8))
    first = torch.nn.ModuleDict({"embedding": resumable()})
    trained(first["embedding"], range(4))
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = torch.nn.ModuleDict({"embedding": resumable("renamed")})  # of the same key
    trained(second["embedding"], range(100, 103))  # replaced by what is loaded
    second.load_state_dict(torch.load(file, weights_only=True))
    trained(second["embedding"], range(4, 8))
    ours, theirs = second["embedding"].state_dict(), whole.state_dict()
    assert set(ours) == set(theirs)
    for name in ours:
        if name.split(".")[-1] == "ids":
            start = name[: -len("ids")]
            orders = [state[name].sort().indices for state in (ours, theirs)]
            for part in ("ids", "values", "states", "use"):
                if start + part in ours:
                    mine, other = (s[start + part][o] for s, o in zip((ours, theirs), orders, strict=True))
                    assert torch.equal(mine, other), start + part
        elif "." not in name or name.split(".")[-1] in ("updates", "evicted"):
            assert torch.equal(ours[name], theirs[name]), name


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    engine, other = one(), one(optimizer=Adam())
    other({"f": ids_of([[1, 2]])})
    engine({"f": ids_of([[5]])})
    with pytest.raises(RuntimeError, match=r"states are torch.float32 \[2, 6\], want torch.float32 \[2, 3\]"):
        engine.load_state_dict(other.state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        engine.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        engine.load_state_dict(engine.state_dict() | {"u.ids": torch.zeros(0)})
    assert engine.table("t").ids().tolist() == [5]


@pytest.mark.parametrize(
    ("part", "tensor", "said"),
    [
        ("t.ids", torch.tensor(5), r"ids are torch.int64 \[\], want torch.int64 \[1\]"),
        ("t.updates", torch.tensor([1, 2]), r"updates are torch.int64 \[2\]"),
        ("t.updates", torch.tensor(-1), "-1 updates, want 0 to"),
        ("t.updates", torch.tensor(2**62), "updates, want 0 to"),
        ("t.evicted", torch.tensor([1.5]), "evicted are torch.float32"),
        ("t.evicted", torch.tensor(1), r"evicted are torch.int64 \[\]"),
        ("t.settings", torch.tensor([1000]), "settings are torch.int64"),
        ("steps", torch.tensor([1, 2]), "steps are"),
        ("steps", torch.tensor(1.5), "steps are"),
        ("steps", torch.tensor(-1), "not below 0"),
    ],
)
def test_every_part_of_a_state_is_checked(part: str, tensor: torch.Tensor, said: str) -> None:
    engine = one()
    engine({"f": ids_of([[5]])})
    before = engine.state_dict()
    with pytest.raises(RuntimeError, match=said):
        engine.load_state_dict({**before, part: tensor})
    assert all(torch.equal(a, b) for a, b in zip(before.values(), engine.state_dict().values(), strict=True))


def test_a_state_that_the_last_table_has_no_memory_for_changes_nothing() -> None:
    features = [EmbeddingFeature(name, TableConfig(name, dim)) for name, dim in (("a", 3), ("b", 300))]
    small, big = EmbeddingEngine(features, budget=40_000_000), EmbeddingEngine(features)
    for engine, count in ((small, 1), (big, 50_000)):
        engine({"a": ids_of([list(range(count))]), "b": ids_of([list(range(count))])})
    before = small.state_dict()
    with pytest.raises(BudgetError, match="'b'"):
        small.load_state_dict(big.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(before.values(), small.state_dict().values(), strict=True))


def test_a_state_needs_room_for_itself_alone() -> None:
    """As many rows as there are, in another table of the same store."""
    features = [EmbeddingFeature(name, TableConfig(name, 3)) for name in ("a", "b")]
    engine, other = EmbeddingEngine(features, budget=40_000_000), EmbeddingEngine(features)
    few, many = ids_of([[]]), ids_of([list(range(40))])
    engine({"a": few, "b": many})
    other({"a": many, "b": few})
    engine.budget.most = engine.budget.used
    engine.load_state_dict(other.state_dict())
    assert (len(engine.table("a")), len(engine.table("b"))) == (40, 0)


def test_a_state_says_what_made_it() -> None:
    """Between two eps lie other steps from the same state; another rate is what a schedule gives, too."""
    engine, other = one(optimizer=Adagrad(0.1, eps=1e-10)), one(optimizer=Adagrad(0.5, eps=1e-8))
    other({"f": ids_of([[1, 2]])})
    with pytest.raises(RuntimeError, match=r"state of Adagrad\(.*eps=1e-08\), want that of Adagrad\(.*eps=1e-10\)"):
        engine.load_state_dict(other.state_dict())
    assert not len(engine.table("t"))
    engine.load_state_dict({name: x for name, x in other.state_dict().items() if name != "t.settings"})
    assert engine.table("t").ids().tolist() == [1, 2]
    one(optimizer=Adagrad(0.1, eps=1e-8)).load_state_dict(other.state_dict())


def test_too_much_memory_is_an_error_in_the_users_terms() -> None:
    engine = EmbeddingEngine([EmbeddingFeature("f", TableConfig("t", 3))], budget=9_000_000)
    engine({"f": ids_of([[1], [2]])})
    with pytest.raises(BudgetError, match="tables 't'"):
        engine({"f": ids_of([list(range(10**6))])})
    assert len(engine.table("t")) == 2


def test_a_refused_batch_is_neither_counted_nor_noted() -> None:
    """What an admission counts, and what eviction goes by, are those of the batches that were looked up."""
    config = TableConfig("t", 3, admission=ByCount(2))
    engine = EmbeddingEngine([EmbeddingFeature("f", config)], budget=16_000_000)
    engine({"f": ids_of([[1, 1], [2]])})
    before = {name: tensor.clone() for name, tensor in engine.state_dict().items()}
    with pytest.raises(BudgetError):
        engine({"f": ids_of([[1, 2, 3], list(range(4, 10**6)), list(range(4, 10**6))])})
    after = engine.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    engine({"f": ids_of([[3], [2]])})
    assert sorted(engine.table("t").ids().tolist()) == [1, 2]


def test_where_only_an_admission_has_no_room_nothing_is_noted() -> None:
    engine = EmbeddingEngine([EmbeddingFeature("f", TableConfig("t", 3, admission=ByCount(2)))], budget=16_000_000)
    engine({"f": ids_of([[1, 1], list(range(2, 30))])})
    before = {name: tensor.clone() for name, tensor in engine.state_dict().items()}
    engine.budget.most = engine.budget.used
    with pytest.raises(BudgetError, match="counts of t"):
        engine({"f": ids_of([[1], list(range(30, 80))])})
    after = engine.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_batch_that_the_last_table_refuses_makes_no_row_in_the_first() -> None:
    tables = [TableConfig("a", 3), TableConfig("b", 300, admission=ByCount(2))]
    engine = EmbeddingEngine([EmbeddingFeature(t.name, t) for t in tables], budget=40_000_000)
    engine({t.name: ids_of([[1, 1]]) for t in tables})
    before = {name: tensor.clone() for name, tensor in engine.state_dict().items()}
    with pytest.raises(BudgetError, match="'b'"):
        engine({"a": ids_of([[1, 2, 3]]), "b": ids_of([[*range(50_000), *range(50_000)]])})
    after = engine.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(len(group.pending) == 1 for group in engine.groups)


def test_gradients_are_forgotten_but_not_who_waits_for_them() -> None:
    """The order of most loops of torch: forward, zero_grad, backward, step."""
    engine = one(initializer=Constant(1.0), optimizer=Sgd(1.0))
    out = engine({"f": ids_of([[1]])})["f"]
    out.sum().backward(retain_graph=True)
    engine.zero_grad()
    (2 * out).sum().backward()
    engine.step()
    assert engine.table("t").read(torch.tensor([1]))[0].tolist() == [[-1.0] * 3]
    assert not len(engine.groups[0].pending)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_divides_nothing_is_refused(scale: float) -> None:
    engine = one(initializer=Constant(1.0), optimizer=Sgd(1.0))
    engine({"f": ids_of([[1]])})["f"].sum().backward()
    with pytest.raises(OptionError, match="divided by this scale"):
        engine.step(scale)
    assert engine.step(torch.tensor(2.0)) and engine.table("t").read(torch.tensor([1]))[0][0, 0] == 0.5


def test_tables_lie_on_a_cpu_or_a_gpu() -> None:
    engine = one()
    with pytest.raises(OptionError, match="meta"):
        engine.to("meta")
    assert engine({"f": ids_of([[1]])})["f"].device.type == "cpu"


def test_threads_that_look_up_take_turns() -> None:
    """Each id has one row, whichever thread asks first, and memory that one grows is not read by another."""
    engine = one(initializer=Normal(0, 1))

    def look_up(seed: int) -> None:
        rng = np.random.default_rng(seed)
        with torch.no_grad():
            for size in rng.integers(1, 3000, 60).tolist():
                engine({"f": ids_of([rng.integers(0, 100_000, size).tolist()])})

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look_up, range(4)))
    finally:
        sys.setswitchinterval(interval)
    ids = engine.table("t").ids()
    assert len(ids) == len(ids.unique()) > 50_000


def test_a_batch_without_rows_and_without_ids() -> None:
    engine = one("mean")
    for rows in ([], [[]], [[], []]):
        out = engine({"f": ids_of(rows)})["f"]
        assert out.shape == (len(rows), 3) and not out.any()
        out.sum().backward()
        engine.step()


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({}, "'f': missing"),
        ({"f": Ragged.of(torch.tensor([1.0]), torch.tensor([0, 1]))}, "values torch.float32"),
        ({"f": Ragged(torch.tensor([1]), (torch.tensor([0, 1], dtype=torch.int32),))}, "offsets torch.int32"),
        ({"f": Ragged.of([1], [0, 1], [0, 1])}, "2 levels of offsets"),
        ({"f": Ragged(np.array([b"a"], object), (torch.tensor([0, 1]),))}, "values ndarray"),
        ({"f": Ragged.of(torch.tensor([1]), torch.tensor([0, 2]))}, r"offsets \[0, 2\] for 1 values"),
        ({"f": Ragged.of(torch.tensor([1]), torch.tensor([1, 1]))}, r"offsets \[1, 1\] for 1 values"),
        ({"f": Ragged.of(torch.tensor([1]), torch.tensor([0, 2, 1]))}, r"offsets \[0, 2, 1\] for 1 values"),
        ({"f": Ragged.of(torch.tensor([1]), torch.zeros(0, dtype=torch.int64))}, "no offsets"),
        (
            {"f": Ragged.of(torch.tensor([1]), torch.tensor([0, 1]), weights=torch.ones(2))},
            r"weights torch.float32 \[2\]",
        ),
        ({"f": torch.tensor([1])}, "'f': Tensor, want Ragged"),
        ({"f": Ragged(torch.tensor([1]), (torch.tensor([0, 1]),), torch.ones(1, 2))}, r"float32 \[1, 2\]"),
        ({"f": Ragged(torch.tensor([1]), (torch.tensor([0, 1]),), torch.tensor(1.0))}, r"weights torch.float32 \[\]"),
        ({"f": Ragged(torch.tensor([1]), (torch.tensor([0, 1]),), np.ones(1))}, "weights ndarray"),  # type: ignore[arg-type]
        ({"f": Ragged(torch.tensor([1]), (torch.tensor([0, 1]),), torch.ones(1).to_sparse())}, "torch.sparse_coo"),
        ({"f": Ragged(torch.tensor([1], device="meta"), (torch.tensor([0, 1]),))}, "values on meta"),
        ({"f": Ragged(torch.tensor([1]), (torch.tensor([0, 1], device="meta"),))}, "offsets on meta"),
    ],
)
def test_a_batch_that_cannot_be_read_is_refused(batch: dict[str, Ragged], said: str) -> None:
    engine = one()
    with pytest.raises(FeedError, match=said):
        engine(batch)
    assert len(engine.table("t")) == 0


def test_packed_ids_are_taken_where_they_are_sound() -> None:
    a, b = (EmbeddingFeature(n, TableConfig(n, 3, initializer=Constant(1.0))) for n in "ab")
    engine, given = EmbeddingEngine([a, b]), {"a": ids_of([[1], [2]]), "b": ids_of([[3, 4], []])}
    packed = pack(["a", "b"], given)
    assert engine(packed)["b"][:, 0].tolist() == [2.0, 0.0]
    for wrong in (
        replace(packed, values=packed.values.int()),
        replace(packed, values=packed.values[:-1]),
        replace(packed, offsets=packed.offsets + 1),
        replace(packed, offsets=packed.offsets.flip(0)),
        replace(packed, offsets=torch.tensor([[0, 5, 2], [2, 4, 4]])),
        replace(packed, weighted=(False,)),
        replace(packed, weights=torch.ones(3)),
    ):
        with pytest.raises(FeedError, match="packed ids"):
            engine(wrong)


def test_every_bad_feature_is_listed() -> None:
    good = ids_of([[1], [2]])
    with pytest.raises(FeedError) as told:
        pack(["a", "b", "c"], {"a": good, "b": Ragged.of(torch.tensor([1.0]), *good.offsets)})
    assert "'b': values" in str(told.value) and "'c': missing" in str(told.value)
    with pytest.raises(FeedError, match=r"'b': offsets \[2\]"):
        pack(["a", "b"], {"a": good, "b": ids_of([[1]])})


def test_settings_that_do_not_fit_together_are_listed() -> None:
    a, twice = TableConfig("a", 0, "int8", repeats="max"), TableConfig("a", 3, key="a")
    features = [EmbeddingFeature("f", a, "median"), EmbeddingFeature("f", twice, "none")]
    with pytest.raises(OptionError) as told:
        EmbeddingEngine(features, {"x": ["f", "g"], "y": []})
    for said in ("embedding_dim 0", "'int8'", "'max'", "feature 'f' twice", "table 'a' twice", "median", "'g'", "'y'"):
        assert said in str(told.value), said


def test_a_summary_names_tables_rows_and_bytes() -> None:
    engine = resumable()
    trained(engine, range(3))
    text = engine.summary()
    assert "b " in text and "bfloat16" in text and "Adagrad" in text and f"{engine.budget.used:,} bytes" in text
    assert text in repr(engine).replace("\n  ", "\n")
