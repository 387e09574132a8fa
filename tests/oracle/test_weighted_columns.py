"""Weighted columns over features of Examples: weights that are zero, negative, cancel or are missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import ColonnadeError, IdRangeError
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled, counted, saved

NAN, INF = float("nan"), float("inf")
Row = tuple[Sequence[int], Sequence[float]]
HANDED: list[Row] = [([0, 1], [1, 3]), ([2], [0]), ([1], [-2]), ([], [])]
"""A public report: rows whose weights are all zero or negative, or that have none."""
CORNERS: list[Row] = [
    ([0, 1, 2], [0.5, 0, -1]),
    ([-1, 2], [1, 2]),
    ([-1], [3]),
    ([1, 1], [1, -1]),
    ([0, 2], [1e-45, 1e-30]),
    ([2, 1, 0], [INF, 1, 1]),
    ([1, 0], [NAN, 2]),
    (list(range(3)) * 9, [k / 7 - 1 for k in range(27)]),
]


def serialized(rows: Sequence[Row]) -> Any:
    tf = tensorflow()
    made = np.empty(len(rows), object)
    for k, (ids, weights) in enumerate(rows):
        feature = {
            "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
            "weights": tf.train.Feature(float_list=tf.train.FloatList(value=weights)),
        }
        made[k] = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    return made


@pytest.fixture(scope="module", params=["sum", "mean", "sqrtn"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    tf, path = tensorflow(), tmp_path_factory.mktemp("weighted") / request.param
    v1, fc = tf.compat.v1, tf.feature_column
    with v1.Graph().as_default():
        text = v1.placeholder(tf.string, [None], name="rows")
        of = fc.weighted_categorical_column(fc.categorical_column_with_identity("ids", 3), "weights")
        columns = [fc.embedding_column(of, 1, request.param, initializer=counted(tf))]
        features = v1.io.parse_example(text, fc.make_parse_example_spec(columns))
        out = v1.feature_column.input_layer(features, columns)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, str(path), {"rows": text}, {"out": out})
    return request.param, path


@pytest.mark.parametrize("target", TARGETS)
def test_answers_are_tensorflows(path: tuple[str, Path], target: str) -> None:
    pooling, model = path
    executable = compiled(model, target)
    (column,) = executable.program.columns
    assert column.weights is not None and len(column.filters) == (1 if pooling == "sum" else 2)
    with TensorFlowModel(model) as oracle:
        for rows in (HANDED, CORNERS, [*CORNERS, *HANDED, *CORNERS[::-1]], CORNERS[:1]):
            feed = {"rows": serialized(rows)}
            got = executable(feed)["out"]
            np.testing.assert_allclose(got, oracle.run(feed)["out"], rtol=1e-5, atol=1e-6)
    assert executable({"rows": serialized([])})["out"].shape == (0, 1)


@pytest.mark.parametrize("target", TARGETS)
def test_the_handed_rows(path: tuple[str, Path], target: str) -> None:
    pooling, model = path
    got = compiled(model, target)({"rows": serialized(HANDED)})["out"].reshape(-1)
    wanted = {"sum": [7, 0, -4, 0], "mean": [1.75, 0, 0, 0], "sqrtn": [2.2136, 0, 0, 0]}[pooling]
    np.testing.assert_allclose(got, wanted, rtol=1e-4)


def test_another_number_of_weights_is_refused(path: tuple[str, Path]) -> None:
    rows: list[Row] = [([0, 1], [1, 3]), ([2], [1, 1])]
    with TensorFlowModel(path[1]) as oracle, pytest.raises(OracleError):
        oracle.run({"rows": serialized(rows)})
    with pytest.raises(ColonnadeError, match="Example 1 has another number of values of feature 'weights'"):
        compiler.compile(path[1])({"rows": serialized(rows)})


def test_weights_in_another_row_are_refused(path: tuple[str, Path]) -> None:
    """TensorFlow takes the weights in order, whatever their rows: an answer that nobody asked for."""
    rows: list[Row] = [([0, 1], [1]), ([2], [1, 1])]
    with pytest.raises(ColonnadeError, match="Example 0"):
        compiler.compile(path[1])({"rows": serialized(rows)})


def test_an_id_outside_its_table_is_an_error_unless_its_weight_drops_it(path: tuple[str, Path]) -> None:
    executable = compiler.compile(path[1])
    with pytest.raises(IdRangeError):
        executable({"rows": serialized([([3], [1])])})
    if path[0] != "sum":
        assert executable({"rows": serialized([([3], [0])])})["out"].tolist() == [[0.0]]


def test_the_artifact_keeps_it(path: tuple[str, Path], tmp_path: Path) -> None:
    executable, feed = compiler.compile(path[1]), {"rows": serialized(CORNERS)}
    executable.save(tmp_path / "artifact")
    assert compiler.load(tmp_path / "artifact")(feed)["out"].tobytes() == executable(feed)["out"].tobytes()


def of_sparse(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    v1, fc = tf.compat.v1, tf.feature_column
    ids = v1.sparse_placeholder(tf.int64, (None, None), name="ids")
    weights = v1.placeholder(tf.float32, (None,), name="weights")
    of = fc.weighted_categorical_column(fc.categorical_column_with_vocabulary_list("ids", [2, 5, 0]), "weights")
    features = {"ids": ids, "weights": ids.with_values(weights)}
    out = v1.feature_column.input_layer(features, [fc.indicator_column(of)])
    return {"ids": ids, "weights": weights}, {"out": out}


@pytest.mark.parametrize("target", TARGETS)
def test_indicators_of_sparse_inputs(target: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "model", of_sparse)
    executable = compiled(path, target)
    assert [c.pooling for c in executable.program.columns] == ["marks"]
    full = {
        "ids": np.array([2, 5, 7, 2, 0, 5, 5]),
        "ids.indices": np.array([[0, 0], [0, 2], [2, 0], [2, 1], [2, 2], [4, 0], [4, 1]]),
        "ids.dense_shape": np.array([6, 3]),
        "weights": np.array([NAN, -0.0, INF, 0.5, -INF, 1, 2], np.float32),
    }
    empty = {key: x[:0] for key, x in full.items()} | {"ids.dense_shape": np.array([0, 3])}
    with TensorFlowModel(path) as oracle:
        for feed in (full, empty):
            np.testing.assert_array_equal(executable(feed)["out"], oracle.run(feed)["out"])
