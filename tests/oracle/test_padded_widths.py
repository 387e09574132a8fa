"""Ragged inputs that are padded, or cut, to a width of their own, beside TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import UnsupportedOps
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.oracle import TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled

Array = np.ndarray[Any, Any]
Function = Callable[[Any, Any, Any], Any]
"""Of TensorFlow, a table of 8 rows of 3, and a ragged tensor."""


def exported(path: Path, function: Function, dtype: str) -> Path:
    tf = tensorflow()
    module = tf.Module()
    module.table = tf.Variable(np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32))
    spec = tf.RaggedTensorSpec([None, None], getattr(tf, dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tf.function(lambda x: {"out": function(tf, module.table, x)}, input_signature=[spec])
        tf.saved_model.save(module, str(path), signatures=made.get_concrete_function())
    return path


def hashed(tf: Any, x: Any) -> Any:
    return tf.strings.to_hash_bucket_fast(x, 8)


def masked(tf: Any, table: Any, ids: Any, kept: Any) -> Any:
    return tf.reduce_sum(tf.where(kept[..., tf.newaxis], tf.gather(table, ids), 0.0), 1)


def several(tf: Any, t: Any, x: Any) -> Any:
    """Cut, whole and pooled, of one input."""
    cut, pooled = x.to_tensor(shape=(None, 2)), tf.ragged.map_flat_values(lambda ids: tf.gather(t, ids), x)
    rows = tf.reshape(tf.gather(t, cut), [-1, 6])
    return tf.concat([rows, tf.reduce_sum(tf.gather(t, x.to_tensor()), 1), tf.reduce_sum(pooled, 1)], 1)


FORMS: dict[str, tuple[str, Function]] = {
    "ids": ("int64", lambda tf, t, x: tf.gather(t, x.to_tensor(shape=(None, 4)))),
    "one": ("int64", lambda tf, t, x: tf.gather(t, x.to_tensor(5, shape=(None, 1)))),
    "mean": ("int64", lambda tf, t, x: tf.reduce_mean(tf.gather(t, x.to_tensor(0, shape=(None, 3))), 1)),
    "masked": ("int32", lambda tf, t, x: masked(tf, t, (i := x.to_tensor(shape=(None, 3))), i != 0)),
    "words": ("string", lambda tf, t, x: tf.gather(t, hashed(tf, x.to_tensor("#", shape=(None, 4))))),
    "masked_words": (
        "string",
        lambda tf, t, x: masked(tf, t, hashed(tf, w := x.to_tensor("", shape=(None, 3))), tf.not_equal(w, "")),
    ),
    "hashed": (
        "string",
        lambda tf, t, x: tf.gather(
            t, tf.ragged.map_flat_values(lambda v: hashed(tf, v), x).to_tensor(7, shape=(None, 2))
        ),
    ),
    "numbers": ("float32", lambda tf, t, x: x.to_tensor(-1.5, shape=(None, 3)) @ t[:3]),
    "vectors": (
        "int64",
        lambda tf, t, x: tf.ragged.map_flat_values(lambda i: tf.gather(t, i), x).to_tensor(shape=(None, 4, 3)),
    ),
    "several": ("int64", several),
}
ENDS = ([0, 2, 2, 3, 10], [0, 0, 0], [0], [0, 1], [0, 5, 5])


def feeds(dtype: str) -> list[dict[str, Array]]:
    """Rows that are shorter and longer than any width; empty ones, and none."""
    rng = np.random.default_rng(3)
    made = []
    for ends in ENDS:
        values: Array = rng.integers(0, 8, ends[-1])
        if dtype == "string":
            texts = np.empty(len(values), object)
            texts[:] = [(b"", b"a", b"b", b"#", b"\xff\0", b"c", b"d", b"e")[v] for v in values]
            values = texts
        made.append({"x": values if dtype == "string" else values.astype(dtype), "x_1": np.array(ends)})
    return made


@pytest.mark.parametrize("name", FORMS)
def test_rows_of_a_width(tmp_path: Path, name: str) -> None:
    dtype, function = FORMS[name]
    path = exported(tmp_path / "model", function, dtype)
    with TensorFlowModel(path) as oracle:
        wanted = [(feed, oracle.run(feed)["out"]) for feed in feeds(dtype)]
    for target in TARGETS:
        executable = compiled(path, target)
        assert parse_program(print_program(executable.program), executable.weights.consts) == executable.program
        for feed, want in wanted:
            got = executable(feed)["out"]
            assert got.shape == want.shape, target
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"{target} {feed}")


REFUSED: dict[str, tuple[Function, str]] = {
    "rows": (lambda tf, t, x: tf.gather(t, x.to_tensor(shape=(4, 2))), "number of rows of its own"),
    "no_places": (lambda tf, t, x: tf.gather(t, x.to_tensor(shape=(None, 0))), "ragged_to_dense"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path: Path, name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(UnsupportedOps, match=reason):
        compiler.compile(exported(tmp_path / "model", function, "int64"), "reference")
