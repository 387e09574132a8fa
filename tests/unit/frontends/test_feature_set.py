"""Features as they are declared: values, shared expressions, and all faults at once."""

from __future__ import annotations

import pytest

from colonnade.errors import FeatureError
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet

FIELDS = (
    FieldSpec("city", "string"),
    FieldSpec("age", "float32"),
    FieldSpec("tags", "int32", ragged=1, weighted=True),
    FieldSpec("lists", "int64", ragged=2),
    FieldSpec("flag", "bool"),
)


def test_a_method_gives_another_feature() -> None:
    city = Feature("city")
    hashed = city.hash_bytes()
    assert city == Feature("city") and hashed != city
    assert hashed.mod(7).expr.args == (hashed.expr,)  # type: ignore[attr-defined]


def test_what_two_features_share_is_one_object() -> None:
    a = Feature("a", "city").hash_bytes().mod(10)
    b = Feature("b", Feature("city").hash_bytes()).mod(10).mod(3)
    assert b.expr.args[0] is a.expr  # type: ignore[attr-defined]


def test_tables_are_shared_by_name() -> None:
    features = [
        Feature("city").hash_bytes().embed("t", dim=8),
        Feature("tags").embed("t", dim=8, pooling="mean"),
        Feature("flag").embed(dim=2, dtype="bfloat16", optimizer="adagrad"),
    ]
    tables = FeatureSet(features, FIELDS).tables
    assert [(t.name, t.embedding_dim, t.dtype) for t in tables] == [("t", 8, "float32"), ("flag", 2, "bfloat16")]


def test_what_is_proven() -> None:
    known = FeatureSet([], FIELDS).known
    assert known(Feature("flag").expr).elements.hi == 1
    assert known(Feature("tags").truncate(5, pad=0).expr).rows.width == 5
    assert known(Feature("lists").truncate(5).expr).rows.levels == 2
    assert known(Feature.cross("x", "tags", "flag").mod(9).expr).weighted
    assert known(Feature.combine("x", "flag", "flag").expr).rows.width == 2


FAULTS = [
    (Feature("x"), "reads 'x', which no field is named"),
    (Feature("city").mod(3), "mod takes int64"),
    (Feature("age").embed(), "ids are integers"),
    (Feature("tags").dense(), "no fixed number"),
    (Feature("city").dense(), "no fixed number"),
    (Feature("age").dense().embed(), "both dense and embedded"),
    (Feature("tags").embed(pooling="median"), "median"),
    (Feature("tags").embed(pooling="tile"), "length None"),
    (Feature("tags").embed(pooling="mean", length=3), "truncate it"),
    (Feature("tags").embed(dim=0), "float32[0]"),
    (Feature("tags").embed(dtype="int4"), "int4"),
    (Feature.cross("x", "tags", "age"), "cross takes"),
    (Feature.cross("x", "tags"), "cross takes 2 operands to 8"),
    (Feature.cross("x", "tags", "lists"), "rows of lists"),
    (Feature.combine("x", "tags", "city"), "one dtype"),
    (Feature("tags").truncate(-1), "truncate keeps"),
    (Feature("tags").truncate(2, keep="left"), "'left'"),
    (Feature("tags").truncate(2, pad="a"), "fill of another type"),
    (Feature("tags").weigh("age"), "factor for each element"),
    (Feature("tags").weigh("city"), "weigh takes float32"),
    (Feature("city").hash_bytes("md5"), "md5"),
]


@pytest.mark.parametrize(("feature", "fault"), FAULTS, ids=lambda x: x if isinstance(x, str) else "")
def test_a_fault_is_said(feature: Feature, fault: str) -> None:
    with pytest.raises(FeatureError) as e:
        FeatureSet([feature], FIELDS)
    assert fault in e.value.got


def test_all_faults_are_said_at_once() -> None:
    features = [feature for feature, _ in FAULTS]
    with pytest.raises(FeatureError) as e:
        FeatureSet([*features, Feature("city")], [*FIELDS, FieldSpec("age", "int8"), FieldSpec("wide", "int32", 1, 3)])
    assert "two features are named 'city'" in str(e.value)
    assert "two fields are named 'age'" in str(e.value)
    assert "'wide' has 1 levels of offsets and width 3" in str(e.value)


def test_one_table_of_two_kinds_is_refused() -> None:
    features = [Feature("tags").embed("t", dim=8), Feature("flag").embed("t", dim=9)]
    with pytest.raises(FeatureError, match="'tags': float32\\[8\\]; 'flag': float32\\[9\\]"):
        FeatureSet(features, FIELDS)
