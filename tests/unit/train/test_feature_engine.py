"""The engine of features against the engine of ids and plain torch: outputs, sequences, lists, settings, errors."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.ragged import Ragged
from colonnade.errors import FeatureError, FeedError, OptionError
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.train.admission import ByCount
from colonnade.train.engine import EmbeddingEngine, EmbeddingFeature
from colonnade.train.feature_engine import FeatureEngine
from colonnade.train.initializers import Constant, Normal, Uniform
from colonnade.train.optimizers import Adagrad, Adam, Sgd
from colonnade.train.ragged_rows import RaggedRows
from colonnade.train.table_config import TableConfig

FIELDS = [
    FieldSpec("city", "string"),
    FieldSpec("clicks", "int64", ragged=1),
    FieldSpec("liked", "int64", ragged=1, weighted=True),
    FieldSpec("age", "float32"),
    FieldSpec("pair", "int64", width=2),
    FieldSpec("baskets", "int64", ragged=2),
]


def features(**more: Any) -> dict[str, Feature]:
    """One of every kind; two share a table; one is neither embedded nor dense."""
    made = [
        Feature("city").hash_bytes().mod(100).embed("city", 4, "mean"),
        Feature("raw", "clicks").mod(1000),
        Feature("clicks").mod(50).embed("item", 8),
        Feature("bucket", "age").bucketize([0.0, 10.0]).embed("age", 3),
        Feature("age").fill_missing(0.0).dense(),
        Feature("liked").mod(50).embed("item", 8, "mean"),
        Feature("history", "clicks").truncate(3).mod(50).embed("item", 8, "none", length=3),
        Feature("free", "clicks").mod(50).embed("item", 8, "none"),
        Feature("tiled", "pair").embed("pair", 2, "tile", length=2),
        Feature("baskets").embed("item", 8, "mean"),
        Feature("inside", "baskets").embed("item", 8, "none"),
    ]
    return {f.name: f for f in made} | more


def batch() -> dict[str, Any]:
    return {
        "city": np.array([b"Turin", b"Oslo", b"Turin"], object),
        "clicks": Ragged.of([7, 0, 9, 4, 5, 57], [0, 4, 4, 6]),
        "liked": Ragged.of([7, 1, 1], [0, 1, 2, 3], weights=[1.0, 2.0, 0.5]),
        "age": np.array([31, np.nan, -2], np.float32),
        "pair": np.array([[1, 2], [2, 2], [3, 1]]),
        "baskets": Ragged.of([1, 2, 3, 7], [0, 2, 2, 3], [0, 2, 3, 4]),
    }


def engine(outputs: Any = None, **options: Any) -> FeatureEngine:
    options = {"initializer": Normal(0, 1), "optimizer": Sgd(0.1)} | options
    return FeatureEngine(FeatureSet(list(features().values()), FIELDS), outputs, **options)


def test_outputs_are_those_of_the_rows_that_the_ids_have() -> None:
    made, given = engine(), batch()
    out = made(given)
    assert "raw" not in out
    found = made.transform(given)

    def rows(table: str, ids: torch.Tensor) -> torch.Tensor:
        return made.embedding.table(table).read(ids)[0]

    def bags(name: str, table: str, mode: str, level: int = 0) -> torch.Tensor:
        ids = found.sparse[name]
        weights = ids.weights
        parts = []
        ends = ids.offsets[level].tolist()
        for start, end in itertools.pairwise(ends):
            own = rows(table, ids.values[start:end])
            w = torch.ones(len(own)) if weights is None else weights[start:end]
            total = (own * w[:, None]).sum(0)
            parts.append(total / w.sum() if mode == "mean" and len(own) else total)
        return torch.stack(parts)

    torch.testing.assert_close(out["city"], bags("city", "city", "mean"))
    torch.testing.assert_close(out["clicks"], bags("clicks", "item", "sum"))
    torch.testing.assert_close(out["liked"], bags("liked", "item", "mean"))
    torch.testing.assert_close(out["baskets"].values, bags("baskets", "item", "mean", 1))
    assert out["baskets"].offsets[0].tolist() == [0, 2, 2, 3] and len(out["baskets"].offsets) == 1
    assert (
        torch.equal(out["inside"].values, rows("item", torch.tensor([1, 2, 3, 7]))) and len(out["inside"].offsets) == 2
    )
    assert out["age"].tolist() == [[31.0], [0.0], [-2.0]]
    assert torch.equal(out["history"][0], rows("item", torch.tensor([0, 9, 4])))
    assert not out["history"][1].any() and not out["history"][2, 2].any()
    assert isinstance(out["free"], RaggedRows) and torch.equal(out["free"].padded(4)[0, :4], out["free"].values[:4])
    assert torch.equal(out["tiled"], rows("pair", torch.tensor([1, 2, 2, 2, 3, 1])).reshape(3, 4))


def test_outputs_are_concatenated_as_they_are_named() -> None:
    names = ["bucket", "age", "city", "clicks"]
    alone, joined = engine()(batch()), engine({"deep": names, "wide": ["age"], "h": ["history"]})(batch())
    assert torch.equal(joined["deep"], torch.cat([alone[n] for n in names], 1))
    assert torch.equal(joined["wide"], alone["age"]) and torch.equal(joined["h"], alone["history"])


def test_a_step_is_that_of_the_engine_of_ids() -> None:
    """All features but those of lists, which that engine takes as `Ragged` of two levels."""
    made, given = engine(), batch()
    kept = made.embedding.features
    other = EmbeddingEngine([EmbeddingFeature(f.name, f.table, f.pooling, f.lists) for f in kept])
    found = made.transform(given)
    for _ in range(3):
        out, theirs = made(given), other({f.name: _one_level(found.sparse[f.name], f.lists) for f in kept})
        total = torch.zeros(())
        for name, value in out.items():
            if name in theirs:
                flat = value.values if isinstance(value, RaggedRows) else value
                total = total + flat.sin().sum()
        total.backward()
        sum(x.sin().sum() for x in theirs.values()).backward()
        assert made.step() and other.step()
    for table in ("city", "item", "age", "pair"):
        ids = made.embedding.table(table).ids()
        assert ids.tolist() == other.table(table).ids().tolist()
        torch.testing.assert_close(made.embedding.table(table).read(ids)[0], other.table(table).read(ids)[0])


def _one_level(ids: Ragged, lists: bool) -> Ragged:
    return ids if lists or ids.levels == 1 else Ragged(ids.values, (ids.offsets[1][ids.offsets[0]],), ids.weights)


def test_what_was_transformed_before_is_taken() -> None:
    made = engine()
    assert torch.equal(made(made.transform(batch()))["city"], made(batch())["city"])


@pytest.mark.parametrize("rows", [0, 1])
def test_short_batches(rows: int) -> None:
    given = batch()
    few = {
        "city": given["city"][:rows],
        "clicks": Ragged.of(torch.zeros(0, dtype=torch.int64), [0] * (rows + 1)),
        "liked": Ragged.of(torch.zeros(0, dtype=torch.int64), [0] * (rows + 1), weights=[]),
        "age": given["age"][:rows],
        "pair": given["pair"][:rows],
        "baskets": Ragged.of(torch.zeros(0, dtype=torch.int64), [0] * (rows + 1), [0]),
    }
    made = engine()
    out = made(few)
    assert out["clicks"].shape == (rows, 8) and out["history"].shape == (rows, 3, 8) and out["tiled"].shape == (rows, 4)
    sum(x.sum() for n, x in out.items() if isinstance(x, torch.Tensor) and n != "age").backward()
    assert made.step()


def test_tables_are_what_features_or_configurations_say() -> None:
    own = Feature("own", "pair").embed(dim=2, dtype="bfloat16", initializer=Constant(2.0), optimizer="adam")
    made = engine(None, tables={"city": TableConfig("city", 4, admission=ByCount(2), optimizer=Adagrad(0.5))})
    more = FeatureEngine(FeatureSet([own], FIELDS), optimizer=Sgd(1.0))
    (config,) = more.embedding.groups[0].configs
    assert (config.dtype, config.initializer, config.optimizer) == ("bfloat16", Constant(2.0), Adam())
    made(batch())
    assert len(made.embedding.table("city")) == 1  # Turin came twice
    plain = FeatureEngine(FeatureSet([Feature("pair").embed()], FIELDS)).embedding.groups[0].configs[0]
    assert (plain.optimizer, plain.initializer) == (Adagrad(), Uniform())


def test_all_that_does_not_fit_is_listed() -> None:
    bad = features(
        worse=Feature("worse", "pair").embed("worse", 2, optimizer="adamax", initializer=3),
        padded=Feature("padded", "baskets").embed("item", 8, "none", length=2),
    )
    with pytest.raises(OptionError) as told:
        FeatureEngine(
            FeatureSet(list(bad.values()), FIELDS),
            {"deep": ["city", "history"], "raw": ["raw", "nobody"], "none": []},
            tables={"city": TableConfig("city", 5), "unknown": TableConfig("unknown", 1)},
        )
    for said in (
        "'adamax', want one of adagrad",
        "initializer 3",
        "embedding_dim 4, its configuration 5",
        "'unknown': no feature",
        "rows of lists have no length",
        "['history'] have a row",
        "'raw' is neither",
        "no feature 'nobody'",
        "'none': no",
    ):
        assert said in str(told.value), said
    with pytest.raises(OptionError, match="no features"):
        FeatureEngine(FeatureSet([features()["age"]], FIELDS))


def test_features_that_contradict_one_another_are_listed() -> None:
    with pytest.raises(FeatureError) as told:
        FeatureSet(
            [Feature("a", "pair").embed("t", 2), Feature("a", "clicks").embed("t", 3), Feature("b", "nowhere").embed()],
            FIELDS,
        )
    for said in ("table 't' is declared in 2 ways", "two features are named 'a'", "reads 'nowhere'"):
        assert said in str(told.value), said


def test_a_sequence_that_is_longer_than_its_padding_is_refused() -> None:
    long = Feature("clicks").embed("item", 2, "none", length=3)
    made = FeatureEngine(FeatureSet([long], FIELDS))
    with pytest.raises(FeedError, match=r"row 0 of 4 elements[\s\S]*truncate\(3\)"):
        made({"clicks": batch()["clicks"]})


def test_a_batch_that_does_not_fit_changes_nothing() -> None:
    made = engine()
    with pytest.raises(FeedError) as told:
        made(batch() | {"age": np.zeros((3, 2), np.float32), "pair": np.zeros((2, 2), np.int64)})
    assert "'age'" in str(told.value)
    assert not len(made.embedding.table("item"))


def test_state_is_kept_like_that_of_any_module() -> None:
    made, other = engine(), engine()
    made(batch())["city"].sum().backward()
    made.step()
    other.load_state_dict(made.state_dict())
    made.eval()
    other.eval()
    assert torch.equal(made(batch())["city"], other(batch())["city"])


@pytest.mark.parametrize("way", [copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused_and_a_state_is_taken(way: Any) -> None:
    made, other = engine(), engine()
    made(batch())
    with pytest.raises(OptionError, match="neither copied nor pickled"):
        way(made)
    other.load_state_dict(made.state_dict())
    assert all(torch.equal(x, other.state_dict()[name]) for name, x in made.state_dict().items())


@pytest.mark.parametrize("joined", [False, True])
def test_a_compiled_model_learns_what_the_model_learns(joined: bool) -> None:
    """What the engine does breaks the graph: torch's compiler does not look into it."""
    found = []
    for compiled in (False, True):
        made = engine({"deep": ["city", "clicks", "age"], "l": ["baskets"]} if joined else None, optimizer=Adam(0.1))

        def loss(given: dict[str, Any], made: FeatureEngine = made) -> torch.Tensor:
            outputs = made(given).values()
            return sum((x.values if isinstance(x, RaggedRows) else x).sin().sum() for x in outputs)  # type: ignore[return-value]

        function = torch.compile(loss, backend="eager") if compiled else loss
        for _ in range(3):
            function(batch()).backward()
            made.step()
        found.append(made.state_dict())
    assert all(torch.equal(x, found[1][name]) for name, x in found[0].items())


def test_the_default_device_of_the_process_is_not_that_of_the_host() -> None:
    """Loops write by address, so what they write to has to lie there."""
    found, given = [], batch()
    for device in ("cpu", "meta"):
        with torch.device(device):
            made = engine(optimizer=Adam(0.1), tables={"city": TableConfig("city", 4, admission=ByCount(2))})
            for _ in range(3):
                outputs = made(given).values()
                parts = [x.values if isinstance(x, RaggedRows) else x for x in outputs]
                torch.stack([x.sin().sum() for x in parts]).sum().backward()
                made.step()
            made.load_state_dict(made.state_dict())
            table = made.embedding.table("item")
            found.append([*made.state_dict().values(), *parts, *table.read(table.ids())])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))
