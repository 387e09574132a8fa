"""Numbers of the wrong kind are errors where they are given: no id is cut, no step half done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from colonnade.errors import FeatureError, OptionError
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet
from colonnade.train.admission import ByCount, ByProbability
from colonnade.train.eviction import ByAge, Lfu, Lru
from colonnade.train.feature_engine import FeatureEngine
from colonnade.train.table_config import TableConfig

X = Feature("x")
STRANGE = (1.5, "3", None, True, float("nan"))


def engine(**settings: Any) -> FeatureEngine:
    features = FeatureSet([X.embed("t", dim=4)], [FieldSpec("x", "int64")])
    return FeatureEngine(features, **settings)


@pytest.mark.parametrize("value", STRANGE, ids=repr)
@pytest.mark.parametrize(
    "method",
    [
        X.mod,
        X.truncate,
        lambda n: X.multi_hash([7, n]),
        lambda n: X.embed(dim=n),
        lambda n: X.drop([0, n]),
        lambda n: X.keep([n, 0]),
        lambda n: X.mask([n, 0]),
        lambda n: X.vocabulary([1, 2], default=n),
        lambda n: X.vocabulary([1, 2], num_oov=n),
    ],
)
def test_a_feature_takes_whole_numbers_where_ids_are_made(method: Callable[[Any], Any], value: object) -> None:
    with pytest.raises(FeatureError, match="feature 'x'"):
        method(value)


@pytest.mark.parametrize("value", ["3", None, True], ids=repr)
@pytest.mark.parametrize(
    "method", [lambda x: X.clip(x, 1), lambda x: X.clip(0, x), X.affine, lambda x: X.bucketize([0.0, x]), X.bucketize]
)
def test_a_feature_takes_numbers_where_values_are_made(method: Callable[[Any], Any], value: object) -> None:
    with pytest.raises(FeatureError, match="feature 'x'"):
        method(value)


def test_keys_of_more_than_64_bits_are_said() -> None:
    with pytest.raises(FeatureError, match="64 bits"):
        X.drop([2**63])


def test_numbers_of_numpy_are_numbers() -> None:
    sizes = np.array([3, 5])
    assert X.mod(sizes[0]).expr is X.mod(3).expr
    assert X.clip(sizes[0], sizes[1]).expr is X.clip(3, 5).expr
    assert X.drop(sizes).expr is X.drop([3, 5]).expr
    assert X.bucketize(sizes.astype(np.float32)).expr is X.bucketize([3, 5]).expr


@pytest.mark.parametrize("value", STRANGE, ids=repr)
@pytest.mark.parametrize("policy", [ByCount, Lru, Lfu, ByAge])
def test_policies_count_in_whole_numbers(policy: Callable[[Any], Any], value: object) -> None:
    with pytest.raises(OptionError, match="whole number"):
        policy(value)


@pytest.mark.parametrize("value", ["1", None, True, float("nan")], ids=repr)
def test_a_probability_is_a_number(value: Any) -> None:
    with pytest.raises(OptionError, match="probability"):
        ByProbability(value)


def test_settings_of_an_engine_are_said_together() -> None:
    with pytest.raises(OptionError) as error:
        engine(seed=1.5, budget="4GB", evict_every=-1)
    assert all(name in str(error.value) for name in ("seed 1.5", "budget '4GB'", "evict_every -1"))
    assert engine(seed=np.int64(3)).embedding.seed == 3


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([TableConfig("t", 4)], "dict of table name"),
        ({"t": 4}, "want a TableConfig"),
        ({"t": TableConfig("t", 4, default="a")}, "default 'a'"),  # type: ignore[arg-type]
        ({"t": TableConfig("t", 4.0)}, "embedding_dim 4.0"),  # type: ignore[arg-type]
    ],
)
def test_configurations_of_tables_are_checked(tables: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        engine(tables=tables)
