"""Ids on their way to a lookup: added dims, and inputs of a dtype that no column reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.testing.oracle import TensorFlowModel
from tests.oracle.tf_models import TARGETS, compiled, counted, saved

Ids = Callable[[Any, Any], Any]
WORDS = np.array([b"a", b"b", b"", b"a"], object)
NUMBERS = np.array([3, 0, 299, 7])


def looked_up(tf: Any, dtype: Any, ids: Ids, pooled: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A lookup of ids made of an input `[B]`, averaged over a dim that was added."""
    x = tf.compat.v1.placeholder(dtype, [None], "x")
    rows = tf.gather(tf.compat.v1.get_variable("t", (300, 4), initializer=counted(tf)), ids(tf, x))
    return {"x": x}, {"out": tf.reduce_mean(rows, axis=1) if pooled else rows}


def agrees(path: Path, target: str, value: Any, columns: int) -> None:
    executable = compiled(path, target)
    assert len(executable.program.columns) == columns
    with TensorFlowModel(path) as model:
        for given in (value, value[:1], value[:0]):
            want = model.run({"x": given})["out"]
            np.testing.assert_array_equal(executable({"x": given})["out"], want)


NEW_AXES: dict[str, tuple[str, Ids, Any]] = {
    "integers": ("int64", lambda tf, x: x[:, tf.newaxis], NUMBERS),
    "behind an ellipsis": ("int64", lambda tf, x: x[..., None], NUMBERS),
    "of a hash": ("string", lambda tf, x: tf.strings.to_hash_bucket_fast(x, 300)[:, None], WORDS),
    "hashed after": ("string", lambda tf, x: tf.strings.to_hash_bucket_fast(x[:, None], 300), WORDS),
    "bucketized": (
        "float32",
        lambda tf, x: tf.raw_ops.Bucketize(input=x[:, None], boundaries=[0.0, 1.0]),
        np.float32([-1, 0.5, np.nan]),
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", NEW_AXES)
def test_a_dim_added_by_slicing(case: str, target: str, tmp_path: Path) -> None:
    dtype, ids, value = NEW_AXES[case]
    agrees(saved(tmp_path / "m", lambda tf: looked_up(tf, dtype, ids, True)), target, value, 1)


@pytest.mark.parametrize("ids", [lambda tf, x: x[::-1, None], lambda tf, x: x[:-1, None], lambda tf, x: x[1:, None]])
def test_a_slice_that_does_more_than_add_a_dim(ids: Ids, tmp_path: Path) -> None:
    path = saved(tmp_path / "m", lambda tf: looked_up(tf, "int64", ids, True))
    executable = compiled(path, "cpu")
    with TensorFlowModel(path) as model:
        np.testing.assert_array_equal(executable({"x": NUMBERS})["out"], model.run({"x": NUMBERS})["out"])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "uint32", "uint64", "bool"])
def test_ids_of_dtypes_that_no_column_reads(dtype: str, tmp_path: Path) -> None:
    """They are looked up in the dense rest."""
    path = saved(tmp_path / "m", lambda tf: looked_up(tf, dtype, lambda tf, x: tf.cast(x, tf.int32), False))
    agrees(path, "cpu", np.array([1, 0, 1, 0]).astype(dtype), 0)


def known(tf: Any, x: Any) -> Any:
    """-1 for words that are unknown."""
    keys = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([299, 7], tf.int64))
    return tf.lookup.StaticHashTable(keys, -1).lookup(x)


ENDS = np.array([-(2**63), -1, 0, 5, 299, 300, 2**31, 2**63 - 1])
BOUNDED: dict[str, tuple[str, Ids, Any]] = {
    "unknown words": ("string", lambda tf, x: tf.maximum(known(tf, x), 0), WORDS),
    "both ends": ("int64", lambda tf, x: tf.clip_by_value(x, 0, 299), ENDS),
    "one constant first": ("int64", lambda tf, x: tf.minimum(np.int64(5), tf.maximum(np.int64(2), x)), ENDS),
    "below the least": ("int64", lambda tf, x: tf.maximum(x, -(2**63)), NUMBERS),
    "int32": ("int32", lambda tf, x: tf.clip_by_value(x, 3, 7), np.array([-(2**31), 4, 2**31 - 1, 5], np.int32)),
    "a hash": ("string", lambda tf, x: tf.minimum(tf.strings.to_hash_bucket_fast(x, 1000), 299), WORDS),
    "buckets": (
        "float32",
        lambda tf, x: tf.minimum(tf.raw_ops.Bucketize(input=x, boundaries=[0.0, 1.0, 2.0]), 2),
        np.float32([-1, 0.5, np.nan, 9]),
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", BOUNDED)
def test_ids_that_are_held_to_bounds(case: str, target: str, tmp_path: Path) -> None:
    dtype, ids, value = BOUNDED[case]
    agrees(saved(tmp_path / "m", lambda tf: looked_up(tf, dtype, ids, False)), target, value, 1)


@pytest.mark.parametrize("target", TARGETS)
def test_bounds_for_each_row_are_of_the_dense_rest(target: str, tmp_path: Path) -> None:
    """What is no one number stays what it is."""
    bounds = np.array([[1], [5]])
    path = saved(tmp_path / "m", lambda tf: looked_up(tf, "int64", lambda tf, x: tf.minimum(x, bounds), False))
    agrees(path, target, NUMBERS, 0)


def test_known_words_under_a_mask_of_their_ids(tmp_path: Path) -> None:
    """As a table that says -1 is used: the row of a known word, zeros for others."""

    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = tf.compat.v1.placeholder("string", [None], "x")
        ids = known(tf, x)
        rows = tf.gather(tf.compat.v1.get_variable("t", (300, 4), initializer=counted(tf)), tf.maximum(ids, 0))
        return {"x": x}, {"out": tf.where(ids[:, None] >= 0, rows, tf.zeros_like(rows))}

    path = saved(tmp_path / "m", build)
    for target in TARGETS:
        agrees(path, target, WORDS, 2)
