"""Masks that the dense rest reads, of words and of what is looked up by words, beside TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.backends.reference import ReferenceBackend
from colonnade.testing.oracle import TensorFlowModel
from colonnade.testing.sides import ColonnadeSide, TensorFlowSide
from colonnade.testing.verify import requests_for, verify
from tests.oracle.tf_models import TARGETS, compiled, saved

WORDS = np.array([b"a", b"", b"c", b"zz", b"\xff"], object)
Mask = Callable[[Any, Any, Any], Any]
MASKS: dict[str, Mask] = {
    "present": lambda tf, x, ids: tf.not_equal(x, ""),
    "one_word": lambda tf, x, ids: tf.equal(x, "zz"),
    "known": lambda tf, x, ids: ids > 0,
    "unknown": lambda tf, x, ids: tf.equal(ids, 0),
    "second": lambda tf, x, ids: tf.logical_and(ids >= 2, tf.not_equal(x, "c")),
    "below": lambda tf, x, ids: tf.logical_not(ids <= 1),
}


def looked_up(tf: Any, x: Any) -> Any:
    keys = tf.lookup.KeyValueTensorInitializer(["a", "zz"], tf.constant([1, 2], tf.int64))
    return tf.lookup.StaticHashTable(keys, 0).lookup(x)


def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    v1 = tf.compat.v1
    table = v1.get_variable("t", (10, 3), tf.float32, initializer=v1.random_uniform_initializer(-1, 1, seed=3))
    inputs, outputs = {}, {}
    for key, width in (("fixed", 3), ("open", None)):
        x = inputs[key] = v1.placeholder(tf.string, (None, width), key)
        vectors, ids = tf.nn.embedding_lookup(table, tf.strings.to_hash_bucket_fast(x, 10)), looked_up(tf, x)
        known = tf.nn.embedding_lookup(table, ids)
        for name, of in MASKS.items():
            mask = of(tf, x, ids)
            factor = tf.cast(mask, tf.float32)
            count = tf.reduce_sum(factor, 1, keepdims=True)
            sums = tf.reduce_sum(vectors * factor[..., tf.newaxis], 1)
            outputs[f"{key}_{name}_mean"] = tf.math.divide_no_nan(sums, count)
            outputs[f"{key}_{name}_where"] = tf.reduce_sum(tf.where(mask[..., tf.newaxis], known, 0.0), 1)
            scores = tf.where(mask, tf.reduce_sum(vectors, 2), -1e9)
            outputs[f"{key}_{name}_weights"] = tf.nn.softmax(scores)
            outputs[f"{key}_{name}_any"] = tf.reduce_any(mask, 1)
    one = inputs["one"] = v1.placeholder(tf.string, (None,), "one")
    outputs["one"] = tf.where(tf.equal(one, "a"), 1.0, 2.0)
    return inputs, outputs


@pytest.mark.parametrize("target", TARGETS)
def test_every_mask(target: str, models: Path) -> None:
    executable = compiled(models, target)
    with TensorFlowModel(models) as model:
        for rows in (5, 0, 1):
            rng = np.random.default_rng(rows)
            feed = {key: WORDS[rng.integers(len(WORDS), size=(rows, 3))] for key in ("fixed", "open")}
            feed["one"] = WORDS[rng.integers(len(WORDS), size=rows)]
            want, got = model.run(feed), executable(feed)
            assert got.keys() == want.keys()
            for name, expected in want.items():
                assert (got[name].shape, got[name].dtype) == (expected.shape, expected.dtype), name
                np.testing.assert_allclose(got[name], expected, rtol=1e-6, atol=1e-6, err_msg=f"{target} {rows} {name}")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("masks") / "model", build)


def test_marks_are_held_against_the_comparisons_that_they_are_of(models: Path) -> None:
    executable = compiled(models, "reference")
    program = executable.program
    oracle, ours = TensorFlowSide(models, program), ColonnadeSide(executable, ReferenceBackend())
    asked = list(requests_for(program, (0, 5), 3))
    found = verify(ours, oracle, program, executable.weights, asked)
    oracle.close()
    assert found.ok and len(found.of_kind("column")) > len(MASKS)
