"""Ragged inputs of rows of rows, and of rows of as many values each, pooled over a level or both."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import ColonnadeError, FeedError, UnsupportedOps
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.requests import joined, make_request, rows_in, take
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled

Array = np.ndarray[Any, Any]
Function = Callable[[Any, Any, Any], Any]
"""Of TensorFlow, a table of 8 rows of 3, and a ragged tensor."""
WIDTH = 4


def exported(path: Path, function: Function, uniform: bool = False, splits: str = "int64") -> Path:
    tf = tensorflow()
    module = tf.Module()
    module.table = tf.Variable(np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32))
    shape, rank = ([None, None, WIDTH], 1) if uniform else ([None, None, None], 2)
    spec = tf.RaggedTensorSpec(shape, tf.int64, ragged_rank=rank, row_splits_dtype=getattr(tf, splits))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tf.function(lambda x: {"out": function(tf, module.table, x)}, input_signature=[spec])
        tf.saved_model.save(module, str(path), signatures=made.get_concrete_function())
    return path


def rows_of(tf: Any, table: Any, x: Any) -> Any:
    return tf.ragged.map_flat_values(lambda ids: tf.gather(table, ids), x)


def from_splits(tf: Any, rows: Any, x: Any) -> Any:
    return tf.RaggedTensor.from_row_splits(rows, x.row_splits)


NESTED: dict[str, Function] = {
    "both_mean": lambda tf, t, x: tf.reduce_mean(rows_of(tf, t, x.merge_dims(1, 2)), 1),
    "both_sum": lambda tf, t, x: tf.reduce_sum(rows_of(tf, t, x.merge_dims(1, 2)), 1),
    "both_safe": lambda tf, t, x: tf.nn.safe_embedding_lookup_sparse(
        t, x.merge_dims(1, 2).to_sparse(), combiner="mean"
    ),
    "both_hashed": lambda tf, t, x: tf.reduce_sum(
        tf.ragged.map_flat_values(
            lambda i: tf.gather(t, tf.strings.to_hash_bucket_fast(tf.strings.as_string(i), 8)), x.merge_dims(1, 2)
        ),
        1,
    ),
    "both_padded": lambda tf, t, x: tf.gather(t, x.merge_dims(1, 2).to_tensor()),
    "both_padded_vectors": lambda tf, t, x: rows_of(tf, t, x.merge_dims(1, 2)).to_tensor(),
    "both_padded_with_an_id": lambda tf, t, x: tf.gather(t, x.merge_dims(1, 2).to_tensor(3)),
    "both_cut": lambda tf, t, x: tf.gather(t, x.merge_dims(1, 2).to_tensor(shape=(None, 4))),
    "axes_sum": lambda tf, t, x: tf.reduce_sum(rows_of(tf, t, x), axis=[1, 2]),
    "axes_mean": lambda tf, t, x: tf.reduce_mean(rows_of(tf, t, x), axis=[1, 2]),
    "mean_then_sum": lambda tf, t, x: tf.reduce_sum(tf.reduce_mean(rows_of(tf, t, x), axis=2), axis=1),
    "mean_then_mean": lambda tf, t, x: tf.reduce_mean(tf.reduce_mean(rows_of(tf, t, x), axis=2), axis=1),
    "inner": lambda tf, t, x: tf.reduce_mean(rows_of(tf, t, x), axis=2).values,
    "inner_safe": lambda tf, t, x: tf.reduce_sum(
        from_splits(tf, tf.nn.safe_embedding_lookup_sparse(t, x.values.to_sparse(), combiner="mean"), x), 1
    ),
    "dense_between": lambda tf, t, x: tf.reduce_sum(
        from_splits(tf, tf.nn.relu(tf.reduce_sum(rows_of(tf, t, x), axis=2).values) @ tf.ones((3, 2)), x), 1
    ),
}
UNIFORM: dict[str, Function] = {
    "both_mean": lambda tf, t, x: tf.reduce_mean(rows_of(tf, t, x), axis=[1, 2]),
    "inner": lambda tf, t, x: tf.reduce_sum(
        tf.ragged.map_flat_values(lambda i: tf.reduce_mean(tf.gather(t, i), 1), x), 1
    ),
    "outer": lambda tf, t, x: tf.reduce_sum(rows_of(tf, t, x), axis=1),
    "flat": lambda tf, t, x: tf.reduce_mean(
        tf.ragged.map_flat_values(lambda i: tf.reshape(tf.gather(t, i), [-1, 3 * WIDTH]), x), 1
    ),
}
OUTER = ([0, 2, 2, 5, 6], [0, 0, 0], [0], [0, 40, 40, 41])


def feeds(uniform: bool, splits: str) -> list[dict[str, Array]]:
    """Rows of rows of random length; empty ones among both, and no rows at all."""
    rng = np.random.default_rng(3)
    made = []
    for outer in OUTER:
        if uniform:
            made.append({"x": rng.integers(0, 8, (outer[-1], WIDTH)), "x_1": np.array(outer, splits)})
            continue
        inner = np.cumsum([0, *rng.choice([0, 0, 1, 2, 7], outer[-1])])
        feed = {"x": rng.integers(0, 8, inner[-1]), "x_1": np.array(outer, splits), "x_2": inner.astype(splits)}
        made.append(feed)
    return made


def compare(path: Path, uniform: bool, splits: str) -> None:
    with TensorFlowModel(path) as oracle:
        wanted = [(feed, oracle.run(feed)["out"]) for feed in feeds(uniform, splits)]
    for target in TARGETS:
        executable = compiled(path, target)
        for feed, want in wanted[:3] if target == "gpu" else wanted:
            got = executable(feed)["out"]
            assert got.shape == want.shape, target
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"{target} {feed}")


@pytest.mark.parametrize("name", NESTED)
def test_rows_of_rows(tmp_path: Path, name: str) -> None:
    compare(exported(tmp_path / "model", NESTED[name]), False, "int64")


@pytest.mark.parametrize("name", ["both_mean", "axes_mean", "both_padded", "both_cut"])
def test_splits_of_32_bits(tmp_path: Path, name: str) -> None:
    compare(exported(tmp_path / "model", NESTED[name], splits="int32"), False, "int32")


@pytest.mark.parametrize("name", UNIFORM)
def test_rows_of_as_many_values(tmp_path: Path, name: str) -> None:
    compare(exported(tmp_path / "model", UNIFORM[name], uniform=True), True, "int64")


BAD = {
    "outer ends early": {"x_1": [0, 2, 4], "x_2": [0, 1, 2, 3, 4, 5]},
    "outer ends late": {"x_1": [0, 2, 6], "x_2": [0, 1, 2, 3, 4, 5]},
    "outer falls": {"x_1": [0, 3, 2, 5], "x_2": [0, 1, 2, 3, 4, 5]},
    "inner ends early": {"x_1": [0, 2, 5], "x_2": [0, 1, 2, 3, 4, 4]},
    "inner falls": {"x_1": [0, 2, 5], "x_2": [0, 1, 3, 2, 4, 5]},
    "no splits": {"x_1": [], "x_2": [0, 5]},
}


@pytest.mark.parametrize("name", ["both_sum", "axes_sum"])
def test_splits_that_do_not_fit_are_errors(tmp_path: Path, name: str) -> None:
    path = exported(tmp_path / "model", NESTED[name])
    for target in TARGETS:
        executable = compiled(path, target)
        for what, splits in BAD.items():
            feed = {"x": np.arange(5), **{key: np.array(value, np.int64) for key, value in splits.items()}}
            with pytest.raises(FeedError):
                executable(feed)
                raise AssertionError(f"{target} answers where the {what}")


@pytest.mark.parametrize("what", ["outer ends early", "outer ends late", "inner ends early"])
def test_tensorflow_refuses_them_too(tmp_path: Path, what: str) -> None:
    feed = {"x": np.arange(5), **{key: np.array(value, np.int64) for key, value in BAD[what].items()}}
    with TensorFlowModel(exported(tmp_path / "model", NESTED["axes_sum"])) as oracle, pytest.raises(OracleError):
        oracle.run(feed)


@pytest.mark.parametrize("uniform", [False, True])
def test_random_requests_are_cut_and_joined_by_outer_rows(tmp_path: Path, uniform: bool) -> None:
    forms = UNIFORM if uniform else NESTED
    for name in ("flat", "both_mean") if uniform else ("both_mean", "axes_mean", "inner_safe", "both_cut"):
        path = exported(tmp_path / name, forms[name], uniform)
        executables = [compiled(path, target) for target in ("reference", "cpu")]
        program = executables[0].program
        assert parse_program(print_program(program), executables[0].weights.consts) == program
        for rows in (0, 1, 7):
            request = make_request(program, "ordinary", rows)
            assert rows_in(program, request.feed) == rows
            want, got = (e(request.feed)["out"] for e in executables)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            some = list(range(rows))[::2]
            one = executables[0](take(program, request, some).feed)["out"]
            np.testing.assert_allclose(one, want[some], rtol=1e-5, atol=1e-6)
            twice = executables[0](joined(program, [request, request], "twice").feed)["out"]
            np.testing.assert_allclose(twice, np.concatenate([want, want]), rtol=1e-5, atol=1e-6)


# -- what is refused ---------------------------------------------------------------------------------------------------
REFUSED: dict[str, tuple[Function, str]] = {
    "padded": (lambda tf, t, x: tf.gather(t, x.to_tensor()), "rows of several levels"),
    "padded_rows": (lambda tf, t, x: tf.reduce_sum(rows_of(tf, t, x), axis=2).to_tensor(), "ragged_to_dense"),
    "largest": (lambda tf, t, x: tf.reduce_max(tf.reduce_sum(rows_of(tf, t, x), axis=2), axis=1), "UnsortedSegmentMax"),
    "inner_and_both": (
        lambda tf, t, x: tf.concat(
            [
                tf.reduce_sum(rows_of(tf, t, x.merge_dims(1, 2)), 1),
                tf.reduce_sum(tf.reduce_mean(rows_of(tf, t, x), axis=2), axis=1),
            ],
            1,
        ),
        "several index matrices or splits",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_forms_are_refused(tmp_path: Path, name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(ColonnadeError) as caught:
        compiler.compile(exported(tmp_path / "model", function), "reference")
    assert isinstance(caught.value, UnsupportedOps)
    assert reason in str(caught.value)
