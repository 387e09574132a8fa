"""The fused transform against the one that defines it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.errors import FeedError, ShapeError
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ops.at_least import AtLeast
from colonnade.testing.strategies_feature import FeatureCase, feature_cases
from colonnade.train.features.fused import FusedTransform
from colonnade.train.features.reference import ReferenceTransform
from colonnade.train.features.transformed import Transformed


def assert_same(got: Transformed, want: Transformed) -> None:
    """The same elements, offsets and weights, bit for bit, but for the sign and payload of NaN."""
    assert got.rows == want.rows
    assert list(got.sparse) == list(want.sparse) and list(got.dense) == list(want.dense)
    np.testing.assert_array_equal(got.ids.numpy(), want.ids.numpy())
    for name, x in want.dense.items():
        assert got.dense[name].dtype == torch.float32
        np.testing.assert_array_equal(got.dense[name].numpy(), x.numpy(), err_msg=name)
    for name, y in want.sparse.items():
        x = got.sparse[name]
        assert len(x.offsets) == len(y.offsets) and (x.weights is None) == (y.weights is None), name
        assert all(torch.equal(a, b) for a, b in zip(x.offsets, y.offsets, strict=True)), name
        np.testing.assert_array_equal(np.asarray(x.values), np.asarray(y.values), err_msg=name)
        assert x.weights is None or torch.equal(x.weights, y.weights), name


@settings(max_examples=150)
@given(case=feature_cases())
def test_all_features_are_those_of_the_reference(case: FeatureCase) -> None:
    fused = FusedTransform(case.features)
    want = ReferenceTransform(case.features)(case.batch)
    assert_same(fused(case.batch), want)
    assert_same(fused(case.batch), want)


FIELDS = (
    FieldSpec("s", "string"),
    FieldSpec("i", "int32", ragged=1),
    FieldSpec("j", "int64", ragged=1),
    FieldSpec("x", "float32", width=2),
)


def batch(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    ends = [np.cumsum([0, *rng.integers(0, 9, rows)]) for _ in range(2)]
    return {
        "s": Strings.from_objects([str(k).encode() for k in rng.integers(0, 99, rows)]),
        "i": Ragged.of(torch.from_numpy(rng.integers(-9, 99, ends[0][-1]).astype(np.int32)), ends[0]),
        "j": Ragged.of(torch.from_numpy(rng.integers(-9, 99, ends[1][-1])), ends[1]),
        "x": rng.standard_normal((rows, 2)).astype(np.float32),
    }


def features() -> FeatureSet:
    hashed = Feature("h", "s").hash_bytes("murmur")
    i = Feature("i").drop([0, 1, 2]).truncate(5)
    made = [
        hashed.mod(100).embed(),
        Feature("g", hashed).mod(7).embed("h2"),
        i.hash_int().mod(1000).embed("i", pooling="mean"),
        Feature.cross("ij", i, "j", hashed).mod(50).embed(),
        Feature.combine("both", "j", i).embed(),
        Feature("x").log().fill_missing(0.0).clip(-1.0, 1.0).affine(2.0, 1.0).dense(),
        Feature("b", "x").bucketize([-0.5, 0.0, 0.5]).embed(),
        *Feature("j").multi_hash([10, 20, 30]),
    ]
    return FeatureSet(made, FIELDS)


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_a_model_of_every_kind(rows: int) -> None:
    assert_same(FusedTransform(features())(batch(rows)), ReferenceTransform(features())(batch(rows)))


def test_rooms_grow_with_the_batch_and_results_stay() -> None:
    fused, want = FusedTransform(features()), ReferenceTransform(features())
    kept = [(fused(batch(rows)), want(batch(rows))) for rows in (3, 2000, 1, 300)]
    for got, expected in kept:
        assert_same(got, expected)


def test_ids_are_views_of_one_tensor() -> None:
    got = FusedTransform(features())(batch(20))
    at = got.ids.data_ptr()
    for x in got.sparse.values():
        assert len(x.values) == 0 or x.values.data_ptr() == at
        at += 8 * len(x.values)
    assert at == got.ids.data_ptr() + 8 * len(got.ids)


def test_what_features_share_is_computed_once() -> None:
    chain = Feature("s").hash_bytes()
    apart = [Feature("a", chain).mod(3), Feature("b", chain).mod(4), Feature("c", chain).mod(3)]
    nodes = FusedTransform(FeatureSet(apart, FIELDS)).plan.nodes
    assert len(nodes) == 4  # the hash, two remainders, and a copy of the first


def test_several_threads() -> None:
    fused, want = FusedTransform(features()), ReferenceTransform(features())(batch(500))
    got: list[Transformed] = []
    threads = [threading.Thread(target=lambda: got.extend(fused(batch(500)) for _ in range(5))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 15
    for found in got:
        assert_same(found, want)


def test_a_batch_that_does_not_fit_is_refused_as_by_the_reference() -> None:
    fused = FusedTransform(features())
    good = batch(5)
    bad = {**good, "i": Ragged(good["i"].values, (good["i"].offsets[0].flip(0),)), "j": 3}
    with pytest.raises(FeedError) as e:
        fused(bad)
    assert "'i'" in e.value.got and "'j'" in e.value.got
    ends = good["j"].offsets[0].clone()
    ends[2] = 10**12
    with pytest.raises(FeedError, match="length -"):
        fused({**good, "j": Ragged(good["j"].values, (ends,))})
    with pytest.raises(FeedError, match="'x' is missing"):
        fused({name: x for name, x in good.items() if name != "x"})
    with pytest.raises(FeedError, match="rows"):
        fused({**good, "x": good["x"][:3]})


def test_operands_of_other_rows_are_refused() -> None:
    beside = FeatureSet([Feature("i").filter(AtLeast(1), of="j")], FIELDS)
    with pytest.raises(ShapeError, match="every row"):
        FusedTransform(beside)(batch(50))
