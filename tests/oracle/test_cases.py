"""Inputs on which systems like this one fail in public, answered as TensorFlow answers them, on every target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import IdRangeError, ShapeError
from colonnade.executable import Executable
from colonnade.testing.models import ColumnSpec, ModelSpec, build
from colonnade.testing.models.feeds import spec_feed
from colonnade.testing.oracle import OracleError, TensorFlowModel
from tests.oracle.tf_models import TARGETS, Build, compiled, counted, layer, saved

Array = np.ndarray[Any, Any]
F32 = np.float32


def column(values: Any, dtype: Any = np.int64) -> Array:
    return np.array(values, dtype).reshape(-1, 1)


class Model:
    """A SavedModel, TensorFlow's answers, and ours by target."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensorflow = TensorFlowModel(path)
        self._compiled: dict[tuple[str, str], Executable] = {}

    def compiled(self, target: str, id_policy: str = "error") -> Executable:
        key = (target, id_policy)
        if key not in self._compiled:
            self._compiled[key] = compiled(self.path, target, id_policy=id_policy)
        return self._compiled[key]

    def answer(self, feed: Mapping[str, Array]) -> Array:
        """TensorFlow's answer, which that of every target equals bit for bit."""
        expected = self.tensorflow.run(feed)["out"]
        for target in TARGETS:
            got = self.compiled(target)(feed)["out"]
            assert got.dtype == expected.dtype and got.shape == expected.shape, target
            assert got.tobytes() == expected.tobytes(), f"{target}: {got.tolist()}, not {expected.tolist()}"
        return expected


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Model]]:
    folder = tmp_path_factory.mktemp("cases")
    made = {name: Model(saved(folder / name, each)) for name, each in BUILDS.items()}
    yield made
    for model in made.values():
        model.tensorflow.close()


def identity(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    ids = tf.compat.v1.placeholder(tf.int64, (None, 1), "ids")
    of = tf.feature_column.categorical_column_with_identity("ids", 14)
    return {"ids": ids}, layer(tf, {"ids": ids}, tf.feature_column.embedding_column(of, 1, initializer=counted(tf)))


def several(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    ids = tf.compat.v1.placeholder(tf.int64, (None, 3), "ids")
    of = tf.feature_column.categorical_column_with_identity("ids", 14)
    embedded = tf.feature_column.embedding_column(of, 1, combiner="mean", initializer=counted(tf))
    return {"ids": ids}, layer(tf, {"ids": ids}, embedded)


def numeric(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    features = {name: tf.compat.v1.placeholder(tf.float32, (None, 1), name) for name in ("zz", "aa")}
    return features, layer(tf, features, *(tf.feature_column.numeric_column(name) for name in features))


def mixed(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fc = tf.feature_column
    features = {name: tf.compat.v1.placeholder(tf.float32, (None, 2), name) for name in ("zz", "mm")}
    features["aa"] = tf.compat.v1.placeholder(tf.float32, (None, 1), "aa")
    buckets = fc.bucketized_column(fc.numeric_column("aa"), [0.0, 10.0])
    columns = [
        fc.numeric_column("zz", shape=(2,)),
        fc.embedding_column(buckets, 3),
        fc.numeric_column("mm", shape=(2,)),
    ]
    return features, layer(tf, features, *columns)


def named(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns in the order given to the layer: c, a, b10, b9."""
    fc = tf.feature_column
    features = {name: tf.compat.v1.placeholder(tf.string, (None, 1), name) for name in ("c", "a", "b10", "b9")}
    of = {name: fc.categorical_column_with_hash_bucket(name, 5) for name in features}
    return features, layer(tf, features, *(fc.embedding_column(of[name], 2) for name in features))


def buckets(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    value = tf.compat.v1.placeholder(tf.float32, (None, 1), "x")
    of = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x"), [0.0, 10.0, 100.0])
    return {"x": value}, layer(tf, {"x": value}, tf.feature_column.embedding_column(of, 1, initializer=counted(tf)))


def shared(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    fc = tf.feature_column
    features = {name: tf.compat.v1.placeholder(tf.int64, (None, 2), name) for name in ("a", "b")}
    of = [fc.categorical_column_with_hash_bucket(name, 10, tf.int64) for name in features]
    return features, layer(tf, features, *tf.compat.v1.feature_column.shared_embedding_columns(of, 3))


def vector(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    ids = tf.compat.v1.placeholder(tf.int64, (None,), "ids")
    of = tf.feature_column.categorical_column_with_identity("ids", 14)
    return {"ids": ids}, layer(tf, {"ids": ids}, tf.feature_column.embedding_column(of, 1, initializer=counted(tf)))


def plain(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A lookup that no guard stands before: an id that is negative is as wrong as one that is too large."""
    ids = tf.compat.v1.placeholder(tf.int64, (None, 1), "ids")
    rows = tf.compat.v1.get_variable("plain_rows", (14, 1), initializer=counted(tf))
    return {"ids": ids}, {"out": tf.gather(rows, ids[:, 0])}


def uncut(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Buckets without a boundary: all values are in the first."""
    value = tf.compat.v1.placeholder(tf.float32, (None, 1), "x")
    rows = tf.compat.v1.get_variable("uncut_rows", (2, 1), initializer=counted(tf))
    return {"x": value}, {"out": tf.gather(rows, tf.raw_ops.Bucketize(input=value[:, 0], boundaries=[]))}


def cancelling(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights that nothing prunes, so that they may cancel."""
    ids = tf.compat.v1.sparse_placeholder(tf.int64, (None, None), "ids")
    weights = tf.compat.v1.placeholder(tf.float32, (None,), "weights")
    rows = tf.compat.v1.get_variable("weighed_rows", (3, 1), initializer=counted(tf))
    out = tf.nn.embedding_lookup_sparse(rows, ids, ids.with_values(weights), combiner="mean")
    return {"ids": ids, "weights": weights}, {"out": out}


BUILDS: dict[str, Build] = {
    build.__name__: build
    for build in (identity, several, numeric, mixed, named, buckets, shared, vector, plain, uncut, cancelling)
}


# -- an id outside its table -------------------------------------------------------------------------------------------
def test_a_missing_id_is_dropped_and_so_is_a_negative_one(models: dict[str, Model]) -> None:
    answer = models["identity"].answer({"ids": column([3, 13, -1, 0, -7])})
    assert answer.tolist() == [[4.0], [14.0], [0.0], [1.0], [0.0]]


@pytest.mark.parametrize("target", TARGETS)
def test_an_id_outside_its_table_is_an_error_everywhere(models: dict[str, Model], target: str) -> None:
    feed = {"ids": column([3, 13, 14, 104, -1])}
    with pytest.raises(OracleError, match="14 out of range"):
        models["identity"].tensorflow.run(feed)
    with pytest.raises(IdRangeError) as caught:
        models["identity"].compiled(target)(feed)
    for part in ("column 'ids'", "row 2", "id 14", "14", "embedding_weights", "id policy 'zero'"):
        assert part in str(caught.value), part
    # The executable is as good as before.
    assert models["identity"].compiled(target)({"ids": column([3])})["out"].tolist() == [[4.0]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bad", [-1, 14, 104, 2**32 + 3, -(2**63)])
def test_an_id_that_no_guard_drops_is_an_error_of_either_sign(models: dict[str, Model], target: str, bad: int) -> None:
    feed = {"ids": column([3, bad, 13])}
    with pytest.raises(OracleError, match="is not in"):
        models["plain"].tensorflow.run(feed)
    with pytest.raises(IdRangeError) as caught:
        models["plain"].compiled(target)(feed)
    assert "column 'ids'" in str(caught.value) and f"id {bad}" in str(caught.value) and "row 1" in str(caught.value)
    zero = models["plain"].compiled(target, "zero")
    before = zero.report().zeroed_ids
    assert zero(feed)["out"].tolist() == [[4.0], [0.0], [14.0]] and zero.report().zeroed_ids - before == 1


@pytest.mark.parametrize("target", TARGETS)
def test_an_id_outside_its_table_is_zero_on_request_and_counted(models: dict[str, Model], target: str) -> None:
    zero = models["identity"].compiled(target, "zero")
    before = zero.report().zeroed_ids
    got = zero({"ids": column([3, 13, 14, 104, -1, 2**40, 2**63 - 1, 2**32 + 3, -(2**63)])})["out"]
    assert got.reshape(-1).tolist() == [4.0, 14.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert zero.report().zeroed_ids - before == 5 and zero.report().id_policy == "zero"


@pytest.mark.parametrize("target", TARGETS)
def test_a_zeroed_id_counts_in_a_mean(models: dict[str, Model], target: str) -> None:
    zero = models["several"].compiled(target, "zero")
    got = zero({"ids": np.array([[3, 104, -1], [14, 14, 14], [-1, -1, -1]])})["out"]
    assert got.tolist() == [[2.0], [0.0], [0.0]]


def test_several_ids_a_row(models: dict[str, Model]) -> None:
    answer = models["several"].answer({"ids": np.array([[3, 13, -1], [-1, 0, 0], [-1, -1, -1], [1, 2, 3]])})
    assert answer.tolist() == [[9.0], [1.0], [0.0], [3.0]]


def test_a_feature_without_a_second_axis(models: dict[str, Model]) -> None:
    assert models["vector"].answer({"ids": np.array([3, -1, 13])}).tolist() == [[4.0], [0.0], [14.0]]


# -- weights that nothing prunes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("ids", [[1, 1, 2], [0, 2, 1]])
def test_weights_that_cancel_divide_nothing(models: dict[str, Model], ids: list[int]) -> None:
    feed = {
        "ids": np.array(ids),
        "ids.indices": np.array([[0, 0], [0, 1], [1, 0]]),
        "ids.dense_shape": np.array([2, 2]),
        "weights": np.array([1, -1, 0.5], F32),
    }
    assert models["cancelling"].answer(feed).tolist() == [[0.0], [ids[2] + 1.0]]


# -- order of the concatenation ----------------------------------------------------------------------------------------
def test_numeric_columns_are_sorted_by_name(models: dict[str, Model]) -> None:
    assert models["numeric"].answer({"zz": column([1], F32), "aa": column([2], F32)}).tolist() == [[2.0, 1.0]]


def test_numeric_columns_stand_among_embedding_columns(models: dict[str, Model]) -> None:
    rng = np.random.default_rng(0)
    feed: dict[str, Array] = {k: rng.standard_normal((5, 2)).astype(F32) for k in ("zz", "mm")}
    feed["zz"][0] = -0.0, np.nan
    feed["aa"] = column([-1, 0, -0.0, np.nan, 11], F32)
    answer = models["mixed"].answer(feed)
    assert answer[:, 3:5].tobytes() == feed["mm"].tobytes() and answer[:, 5:7].tobytes() == feed["zz"].tobytes()
    models["mixed"].answer({k: v[:0] for k, v in feed.items()} | {"aa": column([], F32)})


def test_embedding_columns_are_sorted_by_name_and_the_program_tells_the_order(models: dict[str, Model]) -> None:
    strings = {k: column([k.encode() + b"%d" % i for i in range(4)] + [b""], object) for k in ("c", "a", "b10", "b9")}
    models["named"].answer(strings)
    program = models["named"].compiled("cpu").program
    places = sorted((c.slots[0].offset, c.slots[0].width, c.name) for c in program.columns)
    assert places == [(0, 2, "a"), (2, 2, "b10"), (4, 2, "b9"), (6, 2, "c")]


def test_columns_that_share_a_table_hold_it_once(models: dict[str, Model]) -> None:
    models["shared"].answer({"a": np.array([[1, 2], [-1, -1]]), "b": np.array([[3, -1], [2**62, 1]])})
    report = models["shared"].compiled("cpu").report()
    assert report.num_columns == 2 and [(t.rows, t.embedding_dim) for t in report.tables] == [(10, 3)]


# -- buckets -----------------------------------------------------------------------------------------------------------
def test_bucket_of_nan_signed_zero_and_infinities(models: dict[str, Model]) -> None:
    denormal = np.float32(-1e-45)
    values = column([-1, 0, -0.0, 10, np.nan, np.inf, -np.inf, denormal, -denormal, np.nextafter(F32(10), F32(0))], F32)
    ids = models["buckets"].answer({"x": values})[:, 0] - 1
    assert ids.tolist() == [0, 1, 1, 2, 3, 3, 0, 1, 1, 1]


def test_without_a_boundary_all_values_are_in_one_bucket(models: dict[str, Model]) -> None:
    values = column([1, np.nan, -np.inf, np.inf, -0.0], F32)
    assert models["uncut"].answer({"x": values})[:, 0].tolist() == [1.0] * 5


@pytest.mark.parametrize("boundaries", [[10.0, 0.0], [0.0, 10.0, 5.0], [0.0, float("nan"), 1.0]])
def test_unsorted_boundaries_are_refused_at_compile(tmp_path: Path, boundaries: list[float]) -> None:
    def raw(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        value = tf.compat.v1.placeholder(tf.float32, (None,), "x")
        return {"x": value}, {"out": tf.raw_ops.Bucketize(input=value, boundaries=boundaries, name="cut")}

    with pytest.raises(ShapeError, match="nondecreasing float32 boundaries") as caught:
        compiler.compile(saved(tmp_path / "model", raw))
    assert "'cut'" in caught.value.where and " before " in caught.value.got


# -- where the time went -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS[:2])  # on a GPU columns and dense rest are one graph, timed as one
def test_the_report_says_where_time_and_memory_went(tmp_path: Path, target: str) -> None:
    columns = tuple(ColumnSpec(f"s{i}", "hash", "string", 10 * 10 ** (i % 3), 8, "mean") for i in range(6))
    spec = ModelSpec("ranking", columns, 4, (8,), (16, 8))
    executable = compiled(build(spec, tmp_path / "model"), target)
    fresh = executable.report()
    assert (fresh.calls, fresh.rows, fresh.feed_seconds, fresh.columns_seconds, fresh.dense_seconds) == (0, 0, 0, 0, 0)
    for batch in (100, 0, 1):
        executable(spec_feed(spec, batch, np.random.default_rng(batch)))
    report = executable.report()
    assert (report.backend, report.calls, report.rows, report.zeroed_ids) == (target, 3, 101, 0)
    assert min(report.feed_seconds, report.columns_seconds, report.dense_seconds) > 0
    assert report.num_columns == 6 and report.num_inputs == 7
    assert report.table_bytes == 2 * (10 + 100 + 1000) * 8 * 4 == sum(t.bytes for t in report.tables)


def test_a_ranking_model_of_many_one_hots_answers_as_tensorflow_and_says_where_time_went(tmp_path: Path) -> None:
    """One column kernel whatever the number of columns; the report's parts are all the time of a request."""
    sizes = (1_000, 3_000, 10_000)
    columns = [ColumnSpec(f"s{i}", "hash", "string", sizes[i % 3], 8, "mean") for i in range(166)]
    columns.append(ColumnSpec("large", "hash", "string", 1_000_000, 8, "mean"))
    spec = ModelSpec("ranking", tuple(columns), 0, (), (128, 128, 128), extra_outputs=True)
    path = build(spec, tmp_path / "model")
    executable = compiler.compile(path, signature="columns")
    feeds = [spec_feed(spec, batch, np.random.default_rng(batch)) for batch in (100, 50, 1)]
    with TensorFlowModel(path, "columns", optimize=False) as oracle:
        for feed in feeds:
            expected, got = oracle.run(feed), executable(feed)
            assert got["columns"].tobytes() == expected["columns"].tobytes()
            np.testing.assert_allclose(got["score"], expected["score"], rtol=1e-5, atol=1e-6)
    report = executable.report()
    assert len(executable.program.columns) == report.num_columns == 167 and report.calls == 3
    parts = report.seconds
    assert {"feed", "columns", "dense"} <= parts.keys() and all(part > 0 for part in parts.values())
