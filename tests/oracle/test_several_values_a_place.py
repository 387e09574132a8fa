"""Lookups of `[B, T, K]` ids, several values a place: pooled over the values, then over the places, or as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.errors import IdRangeError
from colonnade.testing.oracle import TensorFlowModel
from tests.oracle.tf_models import TARGETS, compiled, saved

Array = np.ndarray[Any, Any]
WORDS = np.array([b"", b"a", b"bc", b"\xff", b"a" * 40], object)
SHAPES: dict[str, tuple[int | None, int | None]] = {"fixed": (4, 3), "steps": (None, 3), "values": (4, None)}
SHAPES |= {"both": (None, None), "one": (4, 1)}
SIZES = [(5, 4, 3), (0, 4, 3), (1, 4, 3)]
FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "as it is": lambda tf, ids, e: e,
    "mean of values": lambda tf, ids, e: tf.reduce_mean(e, 2),
    "sum of values": lambda tf, ids, e: tf.reduce_sum(e, 2),
    "largest of values": lambda tf, ids, e: tf.reduce_max(e, -2),
    "sum of steps": lambda tf, ids, e: tf.reduce_sum(e, 1),
    "mean of values, of steps": lambda tf, ids, e: tf.reduce_mean(tf.reduce_mean(e, 2), 1),
    "mean of all": lambda tf, ids, e: tf.reduce_mean(e, [1, 2]),
    "masked mean": lambda tf, ids, e: masked(tf, ids, e, lambda total, count: total / tf.maximum(count, 1.0)),
    "masked mean, zero of none": lambda tf, ids, e: masked(tf, ids, e, tf.math.divide_no_nan),
    "masked sum": lambda tf, ids, e: tf.reduce_sum(tf.where(kept(tf, ids), e, tf.zeros_like(e)), 2),
    "masked steps": lambda tf, ids, e: steps(tf, ids, e),
}


def kept(tf: Any, ids: Any) -> Any:
    return tf.not_equal(ids, 0)[..., tf.newaxis]


def masked(tf: Any, ids: Any, e: Any, divided: Callable[[Any, Any], Any]) -> Any:
    factors = tf.cast(kept(tf, ids), tf.float32)
    return divided(tf.reduce_sum(e * factors, 2), tf.reduce_sum(factors, 2))


def steps(tf: Any, ids: Any, e: Any) -> Any:
    """The mean over the steps that have a value, of the sums of those."""
    some = tf.cast(tf.reduce_any(tf.not_equal(ids, 0), 2), tf.float32)[..., tf.newaxis]
    sums = tf.reduce_sum(e * tf.cast(kept(tf, ids), tf.float32), 2)
    return tf.math.divide_no_nan(tf.reduce_sum(sums * some, 1), tf.reduce_sum(some, 1))


def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    v1 = tf.compat.v1
    table = v1.get_variable("t", (10, 3), tf.float32, initializer=v1.random_uniform_initializer(-1, 1, seed=3))
    inputs, outputs = {}, {}
    for key, shape in SHAPES.items():
        ids = inputs[key] = v1.placeholder(tf.int64, (None, *shape), key)
        for form, of in FORMS.items():
            outputs[f"{key}, {form}".replace(", ", "_").replace(" ", "_")] = of(
                tf, ids, tf.nn.embedding_lookup(table, ids)
            )
        words = inputs[f"{key}_words"] = v1.placeholder(tf.string, (None, *shape), f"{key}_words")
        found = tf.nn.embedding_lookup(table, tf.strings.to_hash_bucket_fast(words, 10))
        outputs[f"{key}_hashed"] = tf.reduce_mean(found, 2)
    return inputs, outputs


def feed_of(rows: int, steps: int, values: int) -> dict[str, Array]:
    rng = np.random.default_rng(rows)
    feed: dict[str, Array] = {}
    for key, (t, k) in SHAPES.items():
        shape = (rows, t or steps, k or values)
        feed[key] = rng.integers(0, 10, shape) * (rng.random(shape) < 0.6)
        feed[f"{key}_words"] = WORDS[rng.integers(len(WORDS), size=shape)]
    return feed


@pytest.mark.parametrize("target", TARGETS)
def test_every_form(target: str, models: Path) -> None:
    executable = compiled(models, target)
    assert len(executable.program.columns) >= 2 * len(SHAPES)
    with TensorFlowModel(models) as model:
        for size in SIZES:
            want, got = model.run(feed_of(*size)), executable(feed_of(*size))
            assert got.keys() == want.keys()
            for name, expected in want.items():
                assert got[name].shape == expected.shape, name
                np.testing.assert_allclose(got[name], expected, rtol=1e-6, atol=1e-6, err_msg=f"{target} {size} {name}")


@pytest.mark.parametrize("target", TARGETS)
def test_an_id_of_no_row(target: str, models: Path) -> None:
    """Also one that a mask drops once its row was looked up."""
    feed = feed_of(5, 4, 3)
    feed["steps"][4, 3, 2] = 10
    with pytest.raises(IdRangeError):
        compiled(models, target)(feed)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("several") / "model", build)
