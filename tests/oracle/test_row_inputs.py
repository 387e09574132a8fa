"""Sparse and ragged tensors as inputs of a signature, looked up and pooled, beside TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from colonnade import compiler
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.errors import ColonnadeError, FeedError, IdRangeError, UnsupportedOps
from colonnade.executable import Executable
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.requests import joined, make_request, take
from colonnade.testing.tensorflow import tensorflow

TARGETS = ("reference", "cpu", "gpu")
POOLINGS = ("sum", "mean", "sqrtn")
LENGTHS: list[list[int]] = [[2, 0, 3, 1], [0], [], [0, 0, 12, 9, 8, 0, 17, 1, 0], [5], [0, 0, 1]]
TABLE = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
Model = tuple[str, Path]
Feed = dict[str, np.ndarray[Any, Any]]


def lookups(tf: Any) -> dict[str, tuple[Callable[..., Any], Mapping[str, Any]]]:
    """Name -> (function of the table and the inputs, their specs)."""

    def sparse(dtype: str) -> Any:
        return tf.SparseTensorSpec([None, None], tf.as_dtype(dtype))

    def ragged(dtype: str, splits: Any = tf.int64) -> Any:
        return tf.RaggedTensorSpec([None, None], tf.as_dtype(dtype), row_splits_dtype=splits)

    safe, raw = tf.nn.safe_embedding_lookup_sparse, tf.nn.embedding_lookup_sparse
    ids, weighted = {"ids": sparse("int64")}, {"ids": sparse("int64"), "w": sparse("float32")}
    of_rows, weighted_rows = {"ids": ragged("int64")}, {"ids": ragged("int64"), "w": ragged("float32")}
    found: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {}
    for pooling in POOLINGS:
        by: dict[str, Any] = {"combiner": pooling}
        found |= {
            f"safe_{pooling}": (lambda t, ids, by=by: safe(t, ids, **by), ids),
            f"safe_weighted_{pooling}": (lambda t, ids, w, by=by: safe(t, ids, w, **by), weighted),
            f"raw_{pooling}": (lambda t, ids, by=by: raw(t, ids, None, **by), ids),
            f"raw_weighted_{pooling}": (lambda t, ids, w, by=by: raw(t, ids, w, **by), weighted),
            f"ragged_{pooling}": (lambda t, ids, by=by: raw(t, ids, None, **by), of_rows),
            f"ragged_weighted_{pooling}": (lambda t, ids, w, by=by: raw(t, ids, w, **by), weighted_rows),
        }
    found |= {
        "default": (lambda t, ids: safe(t, ids, default_id=3), ids),
        "fast": (lambda t, ids: safe(t, ids, combiner="mean", allow_fast_lookup=True), ids),
        "fast_weighted": (lambda t, ids, w: safe(t, ids, w, combiner="mean", allow_fast_lookup=True), weighted),
        "ragged_as_sparse": (lambda t, ids: safe(t, ids.to_sparse(), combiner="mean"), of_rows),
        "ragged_int32": (lambda t, ids: raw(t, ids, None, combiner="sum"), {"ids": ragged("int64", tf.int32)}),
        "hashed": (lambda t, ids: safe(t, tf.sparse.map_values(_hash, ids)), {"ids": sparse("string")}),
        "ragged_hashed": (
            lambda t, ids: safe(t, tf.ragged.map_flat_values(_hash, ids).to_sparse()),
            {"ids": ragged("string")},
        ),
        "ragged_hashed_with_a_key": (
            lambda t, ids: safe(t, tf.ragged.map_flat_values(_hash_with_a_key, ids).to_sparse()),
            {"ids": ragged("string")},
        ),
        "kept_inside": (lambda t, ids: raw(t, tf.sparse.map_values(_inside, ids), None, combiner="sum"), ids),
    }
    return found


def _hash(x: Any) -> Any:
    return tensorflow().strings.to_hash_bucket_fast(x, 20)


def _hash_with_a_key(x: Any) -> Any:
    return tensorflow().strings.to_hash_bucket_strong(x, 20, [531351033820, 7])


def _inside(x: Any) -> Any:
    tf = tensorflow()
    return tf.where(tf.logical_and(x >= 1, x < 12), x, tf.constant(3, tf.int64))


NAMES = (
    *(f"{kind}{w}_{p}" for kind in ("safe", "raw", "ragged") for w in ("", "_weighted") for p in POOLINGS),
    *("default", "fast", "fast_weighted", "ragged_as_sparse", "ragged_int32", "hashed", "ragged_hashed"),
    *("ragged_hashed_with_a_key", "kept_inside"),
)


def saved(path: Path, function: Callable[..., Any], specs: Mapping[str, Any]) -> Path:
    tf = tensorflow()
    module = tf.Module()
    module.table = tf.Variable(TABLE)
    signature = tf.function(lambda **given: {"y": function(module.table, **given)}).get_concrete_function(**specs)
    tf.saved_model.save(module, str(path), signatures=signature)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("rows")
    known = lookups(tensorflow())

    def get(name: str) -> Path:
        path = folder / name
        return path if path.exists() else saved(path, *known[name])

    return get


def compiled(path: Path, target: str) -> Executable:
    if target != "gpu":
        return compiler.compile(path, target)
    program, weights, explanation, _ = compiler.lower(path)
    return Executable(program, weights, GpuBackend(interpret=True), explanation=explanation)


def feed_of(keys: Sequence[Any], lengths: Sequence[int], name: str) -> Feed:
    """A request with rows of these lengths, by the form of each key."""
    rng = np.random.default_rng(len(lengths))
    rows, num = np.repeat(np.arange(len(lengths)), lengths), sum(lengths)
    places = np.array([j for n in lengths for j in range(n)], np.int64)
    feed: Feed = {}
    for key in keys:
        if len(key.shape) == 2:
            feed[key.name] = np.stack([rows, places], axis=1)
        elif key.shape == (2,):
            feed[key.name] = np.array([len(lengths), max(lengths, default=0)])
        elif key.dtype == "float32":
            feed[key.name] = rng.choice([-1, 0, 0.25, 1, 1.5, 2.75], num).astype(np.float32)
        elif key.dtype == "string":
            feed[key.name] = np.array([b"%d" % k for k in rng.integers(0, 50, num)] + [None], object)[:-1]
        elif name.startswith("ragged") and key.name.endswith("_1"):
            feed[key.name] = np.cumsum([0, *lengths]).astype(key.dtype)
        else:
            feed[key.name] = rng.integers(0, 20, num)
            if name.startswith("safe") and num:
                feed[key.name][::3] = -1
    return feed


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_tensorflows(models: Callable[[str], Path], name: str, target: str) -> None:
    path = models(name)
    executable = compiled(path, target)
    assert len(executable.program.columns) == 1 and not executable.program.dense
    exact = target == "cpu" or ("weighted" not in name and target == "reference")
    with TensorFlowModel(path) as oracle:
        for lengths in LENGTHS:
            feed = feed_of(oracle.inputs(), lengths, name)
            got, want = executable(feed)["y"], oracle.run(feed)["y"]
            assert got.shape == want.shape
            if exact:
                np.testing.assert_array_equal(got, want)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_offsets_say_the_same(models: Callable[[str], Path]) -> None:
    executable = compiler.compile(models("safe_mean"))
    assert [i.name for i in executable.program.signature] == ["ids_1", "ids", "ids_2"]
    ids = np.array([1, 2, 3, 4])
    feed = {"ids": np.array([[0, 0], [0, 1], [2, 0], [2, 1]]), "ids_1": ids, "ids_2": np.array([3, 2])}
    want = executable(feed)["y"]
    assert np.array_equal(executable({"ids_1": ids, "ids_1.offsets": np.array([0, 2, 2, 4])})["y"], want)
    assert np.array_equal(executable({key: value.tolist() for key, value in feed.items()})["y"], want)
    lists = pa.record_batch({"ids_1": pa.array([[1, 2], [], [3, 4]])})
    assert np.array_equal(executable(lists)["y"], want)


BAD = {
    "unsorted": ({"ids": [[1, 0], [0, 0]]}, "the rows of an index matrix fall"),
    "a row outside": ({"ids": [[0, 0], [3, 0]]}, r"\[3, 0\] at element 1"),
    "a place outside": ({"ids": [[0, 0], [1, 2]]}, r"\[1, 2\] at element 1"),
    "a negative row": ({"ids": [[-1, 0], [1, 1]]}, r"\[-1, 0\] at element 0"),
    "a negative size": ({"ids_2": [-1, 2]}, "a dense shape is negative"),
    "another number of values": ({"ids_1": [1, 2, 3]}, "3 values"),
    "three columns": ({"ids": [[0, 0, 0], [0, 1, 0]]}, r"want \[b0, 2\]"),
    "int32": ({"ids": np.zeros((2, 2), np.int32)}, "int32, want int64"),
    "missing": ({"ids_2": None}, "ids_2: missing"),
    "both": ({"ids_1.offsets": [0, 2]}, "given beside ids, ids_2"),
}


@pytest.mark.parametrize(("change", "match"), BAD.values(), ids=BAD)
def test_what_says_no_rows_is_refused(models: Callable[[str], Path], change: dict[str, Any], match: str) -> None:
    executable = compiler.compile(models("safe_mean"), "reference")
    feed: dict[str, Any] = {"ids": [[0, 0], [0, 1]], "ids_1": [1, 2], "ids_2": [3, 2]}
    assert executable(feed)["y"].shape == (3, 4)
    feed = {key: value for key, value in (feed | change).items() if value is not None}
    with pytest.raises(FeedError, match=match):
        executable(feed)


@pytest.mark.parametrize(
    ("splits", "match"),
    [([1, 2], "begin at 0"), ([0, 3, 2], "splits fall"), ([0, 3], "end at 3"), ([], "begin at 0")],
)
def test_splits_that_say_no_rows_are_refused(models: Callable[[str], Path], splits: list[int], match: str) -> None:
    executable = compiler.compile(models("ragged_mean"), "reference")
    with pytest.raises(FeedError, match=match):
        executable({"ids": np.array([1, 2]), "ids_1": np.array(splits, np.int64)})


def test_rows_without_ids_at_the_end_do_not_fit_a_batch(tmp_path: Path) -> None:
    """TensorFlow leaves them out, and then refuses to join the rows with those of another input."""
    tf = tensorflow()

    def function(table: Any, ids: Any, d: Any) -> Any:
        return tf.concat([tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean"), d], 1)

    specs = {"ids": tf.SparseTensorSpec([None, None], tf.int64), "d": tf.TensorSpec([None, 1])}
    path = saved(tmp_path / "model", function, specs)
    executable = compiler.compile(path, "reference")
    feed = {"ids": np.array([[0, 0], [1, 0]]), "ids_1": np.array([1, 2]), "ids_2": np.array([2, 1])}
    with TensorFlowModel(path) as oracle:
        fits, long = (feed | {"d": np.zeros((rows, 1), np.float32)} for rows in (2, 3))
        np.testing.assert_array_equal(executable(fits)["y"], oracle.run(fits)["y"])
        with pytest.raises(OracleError):
            oracle.run(long)
    with pytest.raises(FeedError, match="B"):
        executable(long)


def test_one_matrix_read_with_and_without_its_shape_is_refused(tmp_path: Path) -> None:
    tf = tensorflow()

    def function(table: Any, ids: Any) -> Any:
        raw = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean")
        return tf.reduce_sum(raw) + tf.nn.safe_embedding_lookup_sparse(table, ids)

    path = saved(tmp_path / "model", function, {"ids": tf.SparseTensorSpec([None, None], tf.int64)})
    with pytest.raises(UnsupportedOps, match="sparse_segment_reduce"):
        compiler.compile(path)


# -- feature columns of sparse inputs, as TensorFlow 1 exports them --------------------------------------------------
@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tf, path = tensorflow(), tmp_path_factory.mktemp("columns") / "model"
    v1, fc = tf.compat.v1, tf.feature_column
    with v1.Graph().as_default(), v1.Session() as session:
        dtypes = {"s": tf.string, "f": tf.int64, "g": tf.int64, "w": tf.float32}
        inputs = {key: v1.sparse_placeholder(dtype, [None, None]) for key, dtype in dtypes.items()}
        of = fc.weighted_categorical_column(fc.categorical_column_with_identity("g", 10), "w")
        made = [
            fc.embedding_column(fc.categorical_column_with_hash_bucket("s", 20), 4),
            fc.indicator_column(fc.categorical_column_with_identity("f", 10)),
            fc.embedding_column(of, 3, combiner="sqrtn"),
        ]
        out = v1.feature_column.input_layer(inputs, made)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), inputs, {"y": out})
    return path


def sparse_feed(lengths: Sequence[int]) -> Feed:
    rng = np.random.default_rng(1)
    rows, num = np.repeat(np.arange(len(lengths)), lengths), sum(lengths)
    indices = np.stack([rows, np.array([j for n in lengths for j in range(n)], np.int64)], axis=1)
    values = {
        "s": np.array([b"%d" % k for k in rng.integers(0, 50, num)] + [None], object)[:-1],
        "f": rng.integers(0, 10, num),
        "g": rng.integers(0, 10, num),
        "w": rng.choice([-1, 0, 0.25, 1, 1.5], num).astype(np.float32),
    }
    size = np.array([len(lengths), max(lengths, default=0)])
    parts = {f"{key}.indices": indices for key in values} | {f"{key}.dense_shape": size for key in values}
    return values | parts


@pytest.mark.parametrize("target", TARGETS)
def test_feature_columns(columns: Path, target: str) -> None:
    executable = compiled(columns, target)
    assert len(executable.program.columns) == 3 and not executable.program.dense
    with TensorFlowModel(columns) as oracle:
        for lengths in LENGTHS:
            if sum(lengths) == 0:
                continue  # TensorFlow's indicator of a batch without ids is a reshape that it refuses
            feed = sparse_feed(lengths)
            np.testing.assert_allclose(executable(feed)["y"], oracle.run(feed)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["known", "unknown", "ragged"])
def test_composite_inputs_of_tensorflow_1(kind: str, tmp_path: Path) -> None:
    """Their parts are keys of a request; a sparse tensor of unknown rank is taken to be a matrix."""
    tf = tensorflow()
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", initializer=TABLE)
        if kind == "ragged":
            x = v1.ragged.placeholder(tf.int64, 1, [])
            y = v1.nn.embedding_lookup_sparse(table, x, None, combiner="mean")
        else:
            x = v1.sparse_placeholder(tf.int64, [None, None] if kind == "known" else None)
            y = v1.nn.safe_embedding_lookup_sparse(table, x, combiner="mean")
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def({"x": info(x)}, {"y": info(y)}, "predict")
        builder = v1.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    executable = compiler.compile(tmp_path / "model", "reference")
    said = {"x.indices": np.array([[0, 0], [0, 1], [2, 0]]), "x.dense_shape": np.array([3, 2])}
    if kind == "ragged":
        said = {"x.row_splits": np.array([0, 2, 2, 3])}
    feed = {"x": np.array([3, 4, 5])} | said
    with TensorFlowModel(tmp_path / "model") as oracle:
        assert {i.name for i in oracle.inputs()} == feed.keys()
        np.testing.assert_array_equal(executable(feed)["y"], oracle.run(feed)["y"])


def test_an_id_that_stands_in_a_place_twice_is_no_indicator(columns: Path) -> None:
    feed = sparse_feed([2])
    feed["f.indices"] = np.array([[0, 0], [0, 0]])
    with TensorFlowModel(columns) as oracle, pytest.raises(OracleError):
        oracle.run(feed)
    with pytest.raises(FeedError, match="do not rise"):
        compiler.compile(columns, "reference")(feed)


def test_requests_are_made_joined_and_cut(columns: Path) -> None:
    executable = compiler.compile(columns, "reference")
    program = executable.program
    made = [make_request(program, kind, rows) for kind, rows in (("ordinary", 5), ("corner", 7), ("missing", 2))]
    whole = joined(program, made, "whole")
    got = executable(whole.feed)["y"]
    parts = np.concatenate([executable(r.feed)["y"] for r in made])
    np.testing.assert_array_equal(got, parts)
    np.testing.assert_array_equal(executable(take(program, whole, [3, 0, 13]).feed)["y"], got[[3, 0, 13]])


def test_an_artifact_keeps_the_keys(columns: Path, tmp_path: Path) -> None:
    executable = compiler.compile(columns)
    executable.save(tmp_path / "artifact")
    loaded = compiler.load(tmp_path / "artifact")
    assert loaded.program == executable.program
    feed = sparse_feed([1, 0, 2])
    np.testing.assert_array_equal(loaded(feed)["y"], executable(feed)["y"])
    with pytest.raises(ColonnadeError, match=r"f\.indices: missing"):
        loaded({key: value for key, value in feed.items() if key != "f.indices"})


# -- inputs that were met in public ----------------------------------------------------------------------------------
def handed(ids: Sequence[Sequence[int]], weights: Sequence[Sequence[float]] | None = None) -> Feed:
    indices = np.array([[row, k] for row, some in enumerate(ids) for k, _ in enumerate(some)], np.int64).reshape(-1, 2)
    feed: Feed = {"ids": indices, "ids_1": np.array([i for some in ids for i in some], np.int64)}
    feed["ids_2"] = np.array([len(ids), max(map(len, ids))])
    if weights is not None:
        feed["w_1"] = np.array([w for some in weights for w in some], np.float32)
        feed |= {"w": indices, "w_2": feed["ids_2"]}
    return feed


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [f"{kind}_weighted_{p}" for kind in ("safe", "raw") for p in POOLINGS])
def test_weights_that_are_zero_negative_or_cancel(models: Callable[[str], Path], name: str, target: str) -> None:
    executable = compiled(models(name), target)
    rows = handed([[0, 1], [2], [1], [], [3, 3], [4, 5]], [[1, 3], [0], [-2], [], [1, -1], [2, -1]])
    with TensorFlowModel(models(name)) as oracle:
        np.testing.assert_allclose(executable(rows)["y"], oracle.run(rows)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["safe_mean", "raw_mean", "raw_weighted_mean"])
def test_an_id_outside_its_table_is_an_error(models: Callable[[str], Path], name: str, target: str) -> None:
    """A negative one is dropped where the model drops it."""
    executable = compiled(models(name), target)
    with TensorFlowModel(models(name)) as oracle:
        for ids in ([3, 19, 20, 104, -1], [20], [-1, 4]):
            feed = handed([ids], [[1.0] * len(ids)])
            feed = {key: value for key, value in feed.items() if key in {i.name for i in oracle.inputs()}}
            if max(ids) < 20 and name == "safe_mean":
                np.testing.assert_array_equal(executable(feed)["y"], oracle.run(feed)["y"])
                continue
            with pytest.raises(OracleError):
                oracle.run(feed)
            with pytest.raises(IdRangeError, match="ids_1"):
                executable(feed)
