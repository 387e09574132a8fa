"""Weighted columns over dense ids and weights: they lack values in the same places, or the request is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import FeedError
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.requests import KINDS as KINDS_OF_REQUESTS
from colonnade.testing.requests import make_request
from tests.oracle.tf_models import TARGETS, compiled, saved

NAN, INF = float("nan"), float("inf")
Array = np.ndarray[Any, Any]
WEIGHTS = np.array([[0.5, 2, -1], [0, 1, 0], [0, 0, 0], [1, -1, NAN], [3, INF, 0.25], [1e-5, 2, 0]], np.float32)
NUMBERS = np.array([[3, 0, 9], [-1, 7, -1], [-1, -1, -1], [4, 4, 1], [2, 2, -7], [5, 5, -1]])
TEXTS = np.array(
    [[b"a", b"b", b"c"], [b"", b"a", b""], [b"", b"", b""], [b"a", b"a", b"a"], [b"x", b"yy", b"z"], [b"b", b"c", b""]],
    object,
)
FEEDS: dict[str, Array] = {"identity": NUMBERS, "hash": TEXTS, "words": TEXTS, "numbers": NUMBERS}


def columns(tf: Any) -> dict[str, Callable[[], Any]]:
    fc = tf.feature_column
    return {
        "identity": lambda: fc.categorical_column_with_identity("ids", 10),
        "hash": lambda: fc.categorical_column_with_hash_bucket("ids", 20),
        "words": lambda: fc.categorical_column_with_vocabulary_list("ids", ["a", "yy"], num_oov_buckets=3),
        "numbers": lambda: fc.categorical_column_with_hash_bucket("ids", 20, tf.int64),
    }


def built(kind: str, pooling: str, **options: Any) -> Any:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        fc, v1 = tf.feature_column, tf.compat.v1
        ids = v1.placeholder(tf.string if FEEDS[kind].dtype == object else tf.int64, (None, 3), "ids")
        weights = v1.placeholder(tf.float32, (None, 3), "weights")
        of = fc.weighted_categorical_column(columns(tf)[kind](), "weights")
        made = v1.feature_column.input_layer(
            {"ids": ids, "weights": weights}, [fc.embedding_column(of, 4, pooling, **options)]
        )
        return {"ids": ids, "weights": weights}, {"out": made}

    return build


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("kind", FEEDS)
def test_answers_are_tensorflows(kind: str, pooling: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "model", built(kind, pooling))
    with TensorFlowModel(path) as model:
        for target in TARGETS:
            executable = compiled(path, target)
            program = executable.program
            assert len(program.columns) == len(program.agreements) == 1 and not program.dense
            assert program.columns[0].weights is not None
            for rows in (slice(None), slice(0), slice(2), slice(2, 3)):
                feed = {"ids": FEEDS[kind][rows], "weights": WEIGHTS[rows]}
                want, got = model.run(feed)["out"], executable(feed)["out"]
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=target)


@pytest.mark.parametrize("kind", ["identity", "hash"])
def test_values_in_different_places_are_refused(kind: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "model", built(kind, "mean"))
    executable = compiler.compile(path)
    weights = WEIGHTS.copy()
    weights[0, 1] = 0
    feed = {"ids": FEEDS[kind], "weights": weights}
    with TensorFlowModel(path) as model, pytest.raises(OracleError):
        model.run(feed)
    with pytest.raises(FeedError, match="different places") as caught:
        executable(feed)
    assert "row 0, place 1: 'ids' has a value, 'weights' has none" in caught.value.got
    weights[1, 0] = 7  # as many again: TensorFlow pairs them in order, over all rows
    with pytest.raises(FeedError, match="different places") as caught:
        executable(feed)
    assert "row 1, place 0: 'weights' has a value, 'ids' has none" in caught.value.got
    with pytest.raises(FeedError):  # fewer rows
        executable({"ids": FEEDS[kind], "weights": WEIGHTS[:3]})


def test_a_denormal_weight_is_a_missing_one(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", built("identity", "sum"))
    feed = {"ids": np.array([[3, -1, 1]]), "weights": np.array([[2, 1e-45, 1]], np.float32)}
    with TensorFlowModel(path) as model:
        want = model.run(feed)["out"]
    np.testing.assert_allclose(compiler.compile(path)(feed)["out"], want, rtol=1e-6)


def test_a_norm_before_weights_and_an_artifact(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", built("identity", "mean", max_norm=0.2))
    executable, feed = compiler.compile(path), {"ids": NUMBERS, "weights": WEIGHTS}
    assert executable.program.tables[0].made is not None
    assert parse_program(print_program(executable.program), {}) == executable.program
    with TensorFlowModel(path) as model:
        np.testing.assert_allclose(executable(feed)["out"], model.run(feed)["out"], rtol=1e-5, atol=1e-6)
    executable.save(tmp_path / "artifact")
    loaded = compiler.load(tmp_path / "artifact")
    assert loaded(feed)["out"].tobytes() == executable(feed)["out"].tobytes()
    with pytest.raises(FeedError, match="different places"):
        loaded({"ids": NUMBERS, "weights": WEIGHTS[::-1]})


def test_requests_that_are_made_for_a_check_agree(tmp_path: Path) -> None:
    executable = compiler.compile(saved(tmp_path / "model", built("words", "mean")))
    for kind in KINDS_OF_REQUESTS:
        executable(make_request(executable.program, kind, 9).feed)
