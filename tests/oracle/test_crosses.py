"""Crosses of several values a row: every choice of one value of each feature, with TensorFlow's answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from colonnade import compiler
from colonnade.ir.check_program import check
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.compare import allowed_of_column
from colonnade.testing.models.examples import encode_example
from colonnade.testing.oracle import TensorFlowModel
from colonnade.testing.requests import KINDS as KINDS_OF_REQUESTS
from colonnade.testing.requests import inputs_of, make_request
from tests.oracle.tf_models import TARGETS, compiled, saved

Array = np.ndarray[Any, Any]
NAN, INF = float("nan"), float("inf")
WORDS = np.array([[b"a", b""], [b"b", b"c"], [b"", b""], [b"a", b"a"], [b"", b"\xff"]], object)
MORE = np.array([[b"x", b"y", b"z"], [b"", b"x", b""], [b"p", b"q", b"r"], [b"", b"", b""], [b"x", b"x", b""]], object)
IDS = np.array([[3, -1], [7, 7], [0, 1], [-1, -1], [9, 2]])
NUMBERS = np.array([[0.5], [NAN], [-1], [20], [10]], np.float32)


@dataclass(frozen=True)
class Kind:
    """A cross of dense inputs."""

    feed: dict[str, Array]
    make: Callable[[Any], Any]


SEVERAL = np.array([[0.5, NAN, 11], [NAN, -1, 0], [-1, -0.0, 1e-41], [20, 9.99, 10], [10, 10, -INF]], np.float32)
PAIRS = SEVERAL[::-1, :2].copy()


def buckets(fc: Any, key: str = "n", width: int = 1, least: float = 0.0) -> Any:
    return fc.bucketized_column(fc.numeric_column(key, (width,)), [least, 10.0])


KINDS = {
    "strings": Kind({"a": WORDS, "b": MORE}, lambda fc: fc.crossed_column(["a", "b"], 40)),
    "one and several": Kind({"a": WORDS[:, :1], "b": MORE}, lambda fc: fc.crossed_column(["b", "a"], 40)),
    "with numbers": Kind(
        {"a": WORDS, "i": IDS, "n": NUMBERS},
        lambda fc: fc.crossed_column(
            ["a", buckets(fc), fc.categorical_column_with_identity("i", 10)], 1000, hash_key=12345
        ),
    ),
    "of a vocabulary": Kind(
        {"a": WORDS, "b": MORE},
        lambda fc: fc.crossed_column(
            ["b", fc.categorical_column_with_vocabulary_list("a", ["a", "c"], num_oov_buckets=2)], 30
        ),
    ),
    "a feature twice": Kind(
        {"a": WORDS},
        lambda fc: fc.crossed_column(["a", fc.categorical_column_with_vocabulary_list("a", ["a", "c"])], 30),
    ),
    "buckets of several numbers": Kind(
        {"n": SEVERAL, "a": WORDS}, lambda fc: fc.crossed_column(["a", buckets(fc, width=3)], 1000, hash_key=77)
    ),
    "several numbers twice": Kind(
        {"n": SEVERAL, "m": PAIRS},
        lambda fc: fc.crossed_column([buckets(fc, width=3), buckets(fc, "m", 2, -1.0)], 300),
    ),
    "one number and several": Kind(
        {"n": SEVERAL, "m": NUMBERS},
        lambda fc: fc.crossed_column([buckets(fc, "m"), buckets(fc, width=3)], 300),
    ),
    "the same numbers twice": Kind(
        {"n": SEVERAL},
        lambda fc: fc.crossed_column([buckets(fc, width=3), buckets(fc, width=3, least=-1.0)], 300),
    ),
    "several numbers and all else": Kind(
        {"n": SEVERAL, "a": WORDS, "b": MORE, "i": IDS},
        lambda fc: fc.crossed_column(
            [
                fc.categorical_column_with_identity("i", 10),
                buckets(fc, width=3),
                "b",
                fc.categorical_column_with_vocabulary_list("a", ["a", "c"], num_oov_buckets=2),
            ],
            2000,
            hash_key=3,
        ),
    ),
    "a cross of a cross of several numbers": Kind(
        {"n": SEVERAL, "m": PAIRS, "i": IDS},
        lambda fc: fc.crossed_column(
            [
                fc.crossed_column([buckets(fc, width=3), fc.categorical_column_with_identity("i", 10)], 40),
                buckets(fc, "m", 2),
            ],
            50,
        ),
    ),
    "a cross of a cross": Kind(
        {"a": WORDS, "b": MORE, "i": IDS},
        lambda fc: fc.crossed_column(
            [fc.crossed_column(["a", "b"], 40), fc.categorical_column_with_identity("i", 10)], 50
        ),
    ),
}


def dense(kind: Kind, pooling: str | None) -> Any:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        fc, v1 = tf.feature_column, tf.compat.v1
        inputs = {
            key: v1.placeholder(tf.string if x.dtype == object else x.dtype, (None, x.shape[1]), key)
            for key, x in kind.feed.items()
        }
        of = kind.make(fc)
        column = fc.indicator_column(of) if pooling is None else fc.embedding_column(of, 5, pooling)
        return inputs, {"out": v1.feature_column.input_layer(inputs, [column])}

    return build


def answered(path: Path, feeds: list[dict[str, Any]]) -> None:
    """TensorFlow's answers on every target, by one column."""
    with TensorFlowModel(path) as model:
        want = [model.run(feed)["out"] for feed in feeds]
    for target in TARGETS:
        executable = compiled(path, target)
        program = executable.program
        assert len(program.columns) == 1 and not program.dense and any(i.among for i in program.inputs)
        check(program)
        assert parse_program(print_program(program), executable.weights.consts) == program
        for feed, expected in zip(feeds, want, strict=True):
            got = executable(feed)["out"]
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6, err_msg=target)
            if target == "reference":
                assert got.tobytes() == expected.tobytes()


FIRST = ["strings", "with numbers", "buckets of several numbers"]


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn", None])
@pytest.mark.parametrize("name", FIRST)
def test_dense_inputs(name: str, pooling: str | None, tmp_path: Path) -> None:
    kind = KINDS[name]
    path = saved(tmp_path / "model", dense(kind, pooling))
    rows = (slice(None), slice(0), slice(1, 2), slice(2, 4))
    answered(path, [{key: x[some] for key, x in kind.feed.items()} for some in rows])


@pytest.mark.parametrize("name", [name for name in KINDS if name not in FIRST])
def test_kinds_of_features(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "model", dense(KINDS[name], "mean"))
    answered(path, [KINDS[name].feed])


@pytest.mark.parametrize("name", ["buckets of several numbers", "several numbers and all else"])
@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_wide_models(name: str, combiner: str, tmp_path: Path) -> None:
    """`linear_model`: a weight a bucket, and a bias."""
    kind = KINDS[name]

    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        fc, v1 = tf.feature_column, tf.compat.v1
        inputs = {
            key: v1.placeholder(tf.string if x.dtype == object else x.dtype, (None, x.shape[1]), key)
            for key, x in kind.feed.items()
        }
        out = v1.feature_column.linear_model(inputs, [kind.make(fc)], sparse_combiner=combiner)
        weights = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)
        start = [w.assign(tf.random.stateless_normal(w.shape, (k, 3))) for k, w in enumerate(weights)]
        v1.add_to_collection("starts", start)
        return inputs, {"out": out}

    path = saved(tmp_path / "model", build)
    with TensorFlowModel(path) as model:
        want = model.run(kind.feed)["out"]
    for target in TARGETS:
        executable = compiled(path, target)
        assert len(executable.program.columns) == 1
        np.testing.assert_allclose(executable(kind.feed)["out"], want, rtol=1e-6, atol=1e-6, err_msg=target)


LISTS = [
    ([b"a", b"b"], [1, 2, 3], [0.5]),
    ([], [1], [20.0]),
    ([b""], [], [-1.0]),
    ([b"c", b"c", b"d"], [7], [5.0]),
    ([b"a"] * 9, list(range(9)), [0.0]),
]


def serialized(rows: list[Any]) -> Array:
    made = np.empty(len(rows), object)
    for k, (words, ids, numbers) in enumerate(rows):
        made[k] = encode_example({"w": ("string", words), "i": ("int64", ids), "n": ("float32", numbers)})
    return made


def of_examples(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fc, v1 = tf.feature_column, tf.compat.v1
    text = v1.placeholder(tf.string, (None,), "rows")
    of = fc.crossed_column(["w", fc.categorical_column_with_identity("i", 20), buckets(fc)], 60)
    columns = [fc.embedding_column(of, 3, "sqrtn")]
    features = v1.io.parse_example(text, fc.make_parse_example_spec(columns))
    return {"rows": text}, {"out": v1.feature_column.input_layer(features, columns)}


def test_lists_of_examples(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", of_examples)
    answered(path, [{"rows": serialized(rows)} for rows in (LISTS, LISTS[:1], LISTS[1:3], LISTS[::-1] * 9)])


def sparse(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fc, v1 = tf.feature_column, tf.compat.v1
    inputs = {"a": v1.sparse_placeholder(tf.string, (None, 3), "a"), "n": v1.placeholder(tf.float32, (None, 1), "n")}
    columns = [fc.embedding_column(fc.crossed_column(["a", buckets(fc)], 60), 3, "mean")]
    return inputs, {"out": v1.feature_column.input_layer(inputs, columns)}


def test_sparse_inputs(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", sparse)
    kept = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1]], bool)
    feed = {
        "a": MORE[kept],
        "a.indices": np.argwhere(kept),
        "a.dense_shape": np.array([5, 3]),
        "n": NUMBERS,
    }
    answered(path, [feed])


def split_and_buckets(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fc, v1 = tf.feature_column, tf.compat.v1
    inputs = {"a": v1.placeholder(tf.string, (None,), "a"), "n": v1.placeholder(tf.float32, (None, 3), "n")}
    features = {"a": v1.strings.split(inputs["a"], sep=";", result_type="SparseTensor"), "n": inputs["n"]}
    of = fc.crossed_column(["a", buckets(fc, width=3)], 60)
    return inputs, {"out": v1.feature_column.input_layer(features, [fc.embedding_column(of, 3, "mean")])}


def test_tokens_and_buckets_of_several_numbers(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", split_and_buckets)
    texts = np.empty(5, object)
    texts[:] = [b"x;y", b"", b";", b"\xff;;z", b"x"]
    feed = {"a": texts, "n": SEVERAL}
    answered(path, [feed, {key: x[:0] for key, x in feed.items()}, {key: x[3:4] for key, x in feed.items()}])


def of_examples_and_numbers(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fc, v1 = tf.feature_column, tf.compat.v1
    text = v1.placeholder(tf.string, (None,), "rows")
    of = fc.crossed_column([fc.categorical_column_with_identity("i", 20), buckets(fc, width=2)], 60)
    columns = [fc.embedding_column(of, 3, "sqrtn")]
    features = v1.io.parse_example(text, fc.make_parse_example_spec(columns))
    return {"rows": text}, {"out": v1.feature_column.input_layer(features, columns)}


def test_lists_of_examples_and_several_numbers(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", of_examples_and_numbers)
    rows = [(ids, [a, b]) for (_, ids, _), (a, b) in zip(LISTS, PAIRS.tolist(), strict=True)]
    made = np.empty(len(rows), object)
    for k, (ids, numbers) in enumerate(rows):
        made[k] = encode_example({"i": ("int64", ids), "n": ("float32", numbers)})
    answered(path, [{"rows": made}, {"rows": made[:1]}, {"rows": made[::-1]}])


def split(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fc, v1 = tf.feature_column, tf.compat.v1
    inputs = {key: v1.placeholder(tf.string, (None,), key) for key in "ab"} | {
        "i": v1.placeholder(tf.int64, (None, 2), "i")
    }
    features = {"i": inputs["i"]}
    for key, by in (("a", ";"), ("b", "--")):
        features[key] = v1.strings.split(inputs[key], sep=by, result_type="SparseTensor")
    words = fc.categorical_column_with_vocabulary_list("b", ["a", "c"])
    of = fc.crossed_column(["a", words, fc.categorical_column_with_identity("i", 10)], 60)
    return inputs, {"out": v1.feature_column.input_layer(features, [fc.embedding_column(of, 3, "mean")])}


def test_split_strings(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", split)
    a, b = np.empty(5, object), np.empty(5, object)
    a[:], b[:] = [b"x;y", b"", b";", b"\xff;;z", b"x"], [b"a--c", b"c", b"--a--", b"other", b""]
    feed = {"a": a, "b": b, "i": IDS}
    answered(path, [feed, {key: x[:0] for key, x in feed.items()}, {key: x[3:4] for key, x in feed.items()}])
    executable = compiler.compile(path)
    batch = pa.RecordBatch.from_pydict(
        {
            "a": pa.array(a.tolist(), pa.binary()),
            "b": pa.array(b.tolist(), pa.binary()),
            "i": pa.FixedSizeListArray.from_arrays(pa.array(IDS.reshape(-1)), 2),
        }
    )
    np.testing.assert_array_equal(np.asarray(executable(batch)["out"]), executable(feed)["out"])


def test_other_forms_of_requests(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", dense(KINDS["with numbers"], "sum"))
    executable, feed = compiler.compile(path), KINDS["with numbers"].feed
    want = executable(feed)["out"]
    lists = {"a": feed["a"].tolist(), "i": feed["i"].tolist(), "n": feed["n"].tolist()}
    tensors = {"a": feed["a"], "i": torch.from_numpy(feed["i"]), "n": torch.from_numpy(feed["n"])}
    batch = pa.RecordBatch.from_pydict(
        {
            "a": pa.FixedSizeListArray.from_arrays(pa.array(feed["a"].reshape(-1).tolist(), pa.binary()), 2),
            "i": pa.FixedSizeListArray.from_arrays(pa.array(feed["i"].reshape(-1)), 2),
            "n": pa.array(feed["n"].reshape(-1)),
        }
    )
    for form in (lists, tensors, batch):
        np.testing.assert_array_equal(np.asarray(executable(form)["out"]), want)
    executable.save(tmp_path / "artifact")
    np.testing.assert_array_equal(compiler.load(tmp_path / "artifact")(feed)["out"], want)


MADE = [
    dense(KINDS["with numbers"], "mean"),
    dense(KINDS["several numbers and all else"], "mean"),
    of_examples,
    of_examples_and_numbers,
    sparse,
    split,
    split_and_buckets,
]


@pytest.mark.parametrize("build", MADE)
def test_requests_that_are_made_for_a_check(build: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "model", build)
    executable = compiler.compile(path)
    program, weights = executable.program, executable.weights
    with TensorFlowModel(path) as model:
        for kind in KINDS_OF_REQUESTS:
            feed = make_request(program, kind, 9).feed
            np.testing.assert_allclose(executable(feed)["out"], model.run(feed)["out"], rtol=1e-5, atol=1e-6)
            allowed = allowed_of_column(program.columns[0], program, weights, inputs_of(program, feed), 9)
            assert allowed.shape[0] in (1, 9)
