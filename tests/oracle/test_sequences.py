"""Sequence feature columns, whose elements are not pooled: padded vectors and lengths, beside TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from colonnade import compiler
from colonnade.errors import ColonnadeError, FeedError, IdRangeError
from colonnade.executable import Executable
from colonnade.ir.text import consts_of, parse_program, print_program
from colonnade.testing.deviations import excuse
from colonnade.testing.kinds.columns import FILE, sequence_features
from colonnade.testing.models.examples import encode_example
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.requests import make_request
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled, counted, saved

Feed = dict[str, np.ndarray[Any, Any]]
Columns = Callable[[Any], list[Any]]
WORDS = (b"a", b"b", b"", b"yy", b"nothing", b"\xff")
VOCABULARY = ["a", "b", "yy"]
LENGTHS: list[list[int]] = [[2, 0, 3, 1], [0], [], [0, 0, 12, 9, 0, 17, 1, 0], [5], [0, 0, 1], [1, 0, 0]]
POOLINGS = ("mean", "sum", "sqrtn")


@dataclass(frozen=True)
class Sequence:
    """columns: of a layer, or several layers.   dtypes: of the features.   low, high: of integers."""

    columns: Columns
    dtypes: Mapping[str, str]
    low: int = 0
    high: int = 10


def _embedded(c: Any, of: Any, pooling: str = "mean") -> Any:
    return c.embedding_column(of, 3, pooling)


def _words(c: Any, **options: Any) -> Any:
    return c.sequence_categorical_column_with_vocabulary_list("x", VOCABULARY, **options)


SEQUENCES = {
    **{
        f"identity_{p}": Sequence(
            lambda c, p=p: [_embedded(c, c.sequence_categorical_column_with_identity("x", 10), p)], {"x": "int64"}
        )
        for p in POOLINGS
    },
    "identity_default": Sequence(
        lambda c: [_embedded(c, c.sequence_categorical_column_with_identity("x", 10, 3))], {"x": "int64"}, -4, 14
    ),
    "hash": Sequence(
        lambda c: [_embedded(c, c.sequence_categorical_column_with_hash_bucket("x", 40))], {"x": "string"}
    ),
    "hash_integers": Sequence(
        lambda c: [_embedded(c, c.sequence_categorical_column_with_hash_bucket("x", 40, _int64()))], {"x": "int64"}, -9
    ),
    "vocabulary": Sequence(lambda c: [_embedded(c, _words(c))], {"x": "string"}),
    "vocabulary_default": Sequence(lambda c: [_embedded(c, _words(c, default_value=1))], {"x": "string"}),
    "vocabulary_buckets": Sequence(lambda c: [_embedded(c, _words(c, num_oov_buckets=4))], {"x": "string"}),
    "vocabulary_file": Sequence(
        lambda c: [_embedded(c, c.sequence_categorical_column_with_vocabulary_file("x", _file(), 3))], {"x": "string"}
    ),
    "indicator": Sequence(
        lambda c: [c.indicator_column(c.sequence_categorical_column_with_identity("x", 10))], {"x": "int64"}
    ),
    "indicator_words": Sequence(lambda c: [c.indicator_column(_words(c))], {"x": "string"}),
    "numeric": Sequence(lambda c: [c.sequence_numeric_column("x")], {"x": "float32"}),
    "numeric_default": Sequence(lambda c: [c.sequence_numeric_column("x", default_value=-1.5)], {"x": "float32"}),
    "several": Sequence(
        lambda c: [
            _embedded(c, c.sequence_categorical_column_with_identity("x", 10)),
            c.indicator_column(c.sequence_categorical_column_with_vocabulary_list("y", VOCABULARY)),
            c.sequence_numeric_column("z"),
            _embedded(c, c.sequence_categorical_column_with_hash_bucket("y", 20), "sum"),
        ],
        {"x": "int64", "y": "string", "z": "float32"},
    ),
    "shared": Sequence(
        lambda c: c.shared_embeddings([c.sequence_categorical_column_with_identity(k, 10) for k in "xy"], 3),
        {"x": "int64", "y": "int64"},
    ),
}


def _int64() -> Any:
    return tensorflow().int64


def _file() -> str:
    return str(FILE)


def _layer(tf: Any, sequence: Sequence, features: Mapping[str, Any]) -> dict[str, Any]:
    dense, lengths = sequence_features(tf, sequence.columns(tf.feature_column), dict(features), "layer")
    return {"dense": dense, "lengths": lengths}


def _of_sparse(path: Path, sequence: Sequence) -> Path:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        made = {k: tf.compat.v1.sparse_placeholder(d, [None, None], k) for k, d in sequence.dtypes.items()}
        return made, _layer(tf, sequence, made)

    return saved(path, build)


def _of_examples(path: Path, sequence: Sequence) -> Path:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        serialized = tf.compat.v1.placeholder(tf.string, [None], "examples")
        spec = tf.feature_column.make_parse_example_spec(sequence.columns(tf.feature_column))
        return {"examples": serialized}, _layer(tf, sequence, tf.io.parse_example(serialized, spec))

    return saved(path, build)


def _draw(dtype: str, num: int, rng: np.random.Generator, sequence: Sequence) -> np.ndarray[Any, Any]:
    if dtype == "int64":
        return rng.integers(sequence.low, sequence.high, num)
    if dtype == "float32":
        return rng.choice(np.array([0, -0.0, 1.5, -2, np.nan, np.inf, 1e30], np.float32), num)
    made = np.empty(num, object)
    made[:] = [WORDS[k] for k in rng.integers(len(WORDS), size=num)]
    return made


def _sparse_feed(sequence: Sequence, lengths: list[int], gaps: bool = False) -> Feed:
    """A request with rows of these lengths.   gaps: places without an element before the last of a row."""
    rng = np.random.default_rng(len(lengths) + 7)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    steps = [np.cumsum(rng.integers(1, 4 if gaps else 2, n)) - (0 if gaps else 1) for n in lengths]
    places = np.concatenate([*steps, np.zeros(0, np.int64)]).astype(np.int64)
    width = int(places.max(initial=-1)) + (3 if gaps else 1)
    feed: Feed = {}
    for key, dtype in sequence.dtypes.items():
        feed[key] = _draw(dtype, len(rows), rng, sequence)
        feed[f"{key}.indices"] = np.stack([rows, places], axis=1)
        feed[f"{key}.dense_shape"] = np.array([len(lengths), width])
    return feed


def _examples_feed(sequence: Sequence, lengths: list[int]) -> Feed:
    rng = np.random.default_rng(len(lengths))
    made = np.empty(len(lengths), object)
    made[:] = [
        encode_example({k: (d, _draw(d, n, rng, sequence).tolist()) for k, d in sequence.dtypes.items()})
        for n in lengths
    ]
    return {"examples": made}


def _assert_same(got: Mapping[str, Any], want: Mapping[str, Any], case: object) -> None:
    assert got.keys() == want.keys()
    for name, value in want.items():
        if not value.size:  # a reshape of nothing to a size that is left: TensorFlow's says 1
            assert got[name].size == 0 and got[name].shape[0] == value.shape[0]
            continue
        assert got[name].shape == value.shape, (case, name)
        assert got[name].dtype == value.dtype
        np.testing.assert_array_equal(got[name], value, err_msg=f"{case} {name}")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    folder = tmp_path_factory.mktemp("sequences")

    def get(form: str, name: str) -> Path:
        path = folder / f"{form}_{name}"
        return path if path.exists() else (_of_sparse if form == "sparse" else _of_examples)(path, SEQUENCES[name])

    return get


def _answers_alike(executable: Executable, path: Path, feeds: list[Feed]) -> None:
    with TensorFlowModel(path) as oracle:
        for k, feed in enumerate(feeds):
            try:
                want = oracle.run(feed)
            except OracleError as error:
                if excuse(0, str(error)) and not any(len(x) for key, x in feed.items() if "shape" not in key):
                    continue  # TensorFlow refuses no rows, or no places, in some reshapes
                raise
            _assert_same(executable(feed), want, k)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SEQUENCES)
def test_of_sparse_tensors(models: Callable[[str, str], Path], name: str, target: str) -> None:
    path, sequence = models("sparse", name), SEQUENCES[name]
    executable = compiled(path, target)
    _is_extracted(executable, name)
    feeds = [_sparse_feed(sequence, lengths, gaps) for lengths in LENGTHS for gaps in (False, True)]
    _answers_alike(executable, path, feeds)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SEQUENCES)
def test_of_examples(models: Callable[[str, str], Path], name: str, target: str) -> None:
    path, sequence = models("examples", name), SEQUENCES[name]
    executable = compiled(path, target)
    _is_extracted(executable, name)
    _answers_alike(executable, path, [_examples_feed(sequence, lengths) for lengths in LENGTHS])


def _is_extracted(executable: Executable, name: str) -> None:
    program = executable.program
    assert len(program.columns) == {"several": 3, "shared": 2}.get(name, 0 if name.startswith("numeric") else 1)
    assert all(str(buffer.rows) != "B" for buffer in program.buffers)
    assert parse_program(print_program(program), consts_of(program)) == program


# -- requests by a hair ------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def identity(models: Callable[[str, str], Path]) -> Path:
    return models("sparse", "identity_mean")


SOUND: Feed = {
    "x": np.array([1, 2, 9, 4]),
    "x.indices": np.array([[0, 0], [0, 2], [2, 0], [2, 1]]),
    "x.dense_shape": np.array([4, 3]),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x.indices": np.array([[0, 2], [0, 0], [2, 0], [2, 1]])}, "do not rise"),
        ({"x.indices": np.array([[0, 0], [0, 0], [2, 0], [2, 1]])}, "do not rise"),
        ({"x.indices": np.array([[2, 0], [2, 1], [0, 0], [0, 1]])}, "fall"),
        ({"x.indices": np.array([[0, 0], [0, 3], [2, 0], [2, 1]])}, "outside"),
        ({"x.dense_shape": np.array([2, 3])}, "outside"),
        ({"x": np.array([1, 2, 3])}, "x"),
    ],
)
def test_requests_whose_places_say_no_rows_are_refused(identity: Path, change: Feed, message: str) -> None:
    executable = compiled(identity, "cpu")
    executable(SOUND)
    with pytest.raises(FeedError, match=message):
        executable(SOUND | change)


@pytest.mark.parametrize("target", TARGETS)
def test_ids_outside_their_table_are_errors_and_negative_ones_are_missing(identity: Path, target: str) -> None:
    executable = compiled(identity, target)
    with TensorFlowModel(identity) as oracle:
        missing = SOUND | {"x": np.array([1, -1, 9, -7])}
        _assert_same(executable(missing), oracle.run(missing), "negative")
        outside = SOUND | {"x": np.array([1, 2, 10, 4])}
        with pytest.raises(OracleError):
            oracle.run(outside)
    with pytest.raises(IdRangeError):
        executable(outside)
    zeroed = compiled(identity, target, id_policy="zero")
    assert not zeroed(outside)["dense"][2, 0].any() and zeroed(outside)["dense"][0, 0].any()


def test_offsets_say_the_same(identity: Path) -> None:
    executable = compiled(identity, "cpu")
    full = SOUND | {"x.indices": np.array([[0, 0], [0, 1], [2, 0], [2, 1]]), "x.dense_shape": np.array([4, 2])}
    want = executable(full)
    _assert_same(executable({"x": SOUND["x"], "x.offsets": np.array([0, 2, 2, 4, 4])}), want, "offsets")
    lists = pa.record_batch({"x": pa.array([[1, 2], [], [9, 4], []])})
    _assert_same(executable(lists), want, "lists")
    _assert_same(executable({key: value.tolist() for key, value in full.items()}), want, "lists of numbers")


def test_columns_that_differ_in_width_are_refused(models: Callable[[str, str], Path]) -> None:
    path, sequence = models("sparse", "several"), SEQUENCES["several"]
    feed = _sparse_feed(sequence, [2, 1])
    wider = feed | {"y.dense_shape": np.array([2, 5])}
    with TensorFlowModel(path) as oracle, pytest.raises(OracleError):
        oracle.run(wider)
    executable = compiled(path, "cpu")
    with pytest.raises(FeedError):
        executable(wider)
    other = feed | {"y.indices": np.array([[0, 0], [1, 0], [1, 1]])}
    with TensorFlowModel(path) as oracle, pytest.raises(OracleError, match="assertion"):
        oracle.run(other)
    with pytest.raises(ColonnadeError):
        executable(other)


def test_artifacts_and_made_requests(identity: Path, tmp_path: Path) -> None:
    executable = compiled(identity, "cpu")
    executable.save(tmp_path / "artifact")
    loaded = compiler.load(tmp_path / "artifact")
    with TensorFlowModel(identity) as oracle:
        for kind in ("ordinary", "missing"):
            request = make_request(executable.program, kind, 5)
            _assert_same(loaded(request.feed), oracle.run(request.feed), kind)


# -- whole models ------------------------------------------------------------------------------------------------------
def _attended(tf: Any, dense: Any, lengths: Any, target: Any) -> Any:
    """What a sequence says of a target: softmax of products with it, over the places that there are."""
    scores = tf.squeeze(tf.matmul(dense, tf.expand_dims(target, -1)), -1)
    mask = tf.sequence_mask(lengths, tf.shape(dense)[1])
    weights = tf.nn.softmax(tf.where(mask, scores, tf.fill(tf.shape(scores), -1e9)))
    return tf.reduce_sum(dense * tf.expand_dims(weights, -1), 1)


def _din(tf: Any, features: Mapping[str, Any]) -> dict[str, Any]:
    c = tf.feature_column
    history = _embedded(c, c.sequence_categorical_column_with_hash_bucket("items", 30))
    dense, lengths = sequence_features(tf, [history], {"items": features["items"]}, "history")
    item = c.embedding_column(c.categorical_column_with_hash_bucket("item", 30), 3)
    target = tf.compat.v1.feature_column.input_layer({"item": features["item"]}, [item])
    joined = tf.concat([_attended(tf, dense, lengths, target), target], 1)
    kernel = tf.compat.v1.get_variable("kernel", (6, 2))
    return {"y": tf.nn.relu(tf.matmul(joined, kernel)), "lengths": lengths}


def _din_of_sparse(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    v1 = tf.compat.v1
    made = {
        "items": v1.sparse_placeholder(tf.string, [None, None], "items"),
        "item": v1.placeholder(tf.string, [None, 1], "item"),
    }
    return made, _din(tf, made)


def _din_of_examples(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    serialized = tf.compat.v1.placeholder(tf.string, [None], "examples")
    spec = {"items": tf.io.VarLenFeature(tf.string), "item": tf.io.FixedLenFeature([1], tf.string)}
    return {"examples": serialized}, _din(tf, tf.io.parse_example(serialized, spec))


def _texts(values: list[bytes], *shape: int) -> np.ndarray[Any, Any]:
    made = np.empty(len(values), object)
    made[:] = values
    return made.reshape(shape or (-1,))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["sparse", "examples"])
def test_attention_over_a_sequence(tmp_path: Path, form: str, target: str) -> None:
    path = saved(tmp_path / "din", _din_of_sparse if form == "sparse" else _din_of_examples)
    executable = compiled(path, target)
    assert len(executable.program.columns) == 2
    rng = np.random.default_rng(3)
    with TensorFlowModel(path) as oracle:
        for lengths in LENGTHS:
            num, rows = sum(lengths), len(lengths)
            items = [WORDS[k] for k in rng.integers(len(WORDS), size=num)]
            targets = [WORDS[k] for k in rng.integers(len(WORDS), size=rows)]
            ends = np.cumsum([0, *lengths])
            if form == "sparse":
                places = [[k, j] for k, n in enumerate(lengths) for j in range(n)]
                feed: Feed = {
                    "items": _texts(items),
                    "items.indices": np.array(places, np.int64).reshape(-1, 2),
                    "items.dense_shape": np.array([rows, max(lengths, default=0)]),
                    "item": _texts(targets, rows, 1),
                }
            else:
                if not rows:
                    continue
                feed = {
                    "examples": _texts(
                        [
                            encode_example({"items": ("string", items[a:b]), "item": ("string", [t])})
                            for a, b, t in zip(ends, ends[1:], targets, strict=False)
                        ]
                    )
                }
            got, want = executable(feed), oracle.run(feed)
            for name, value in want.items():
                np.testing.assert_allclose(got[name], value, 1e-5, 1e-6, err_msg=f"{lengths} {name}")


@pytest.mark.parametrize("target", TARGETS)
def test_a_weighted_mean_and_a_sequence_share_one_table(tmp_path: Path, target: str) -> None:
    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        ids = tf.compat.v1.sparse_placeholder(tf.int64, [None, None], "ids")
        weights = tf.compat.v1.sparse_placeholder(tf.float32, [None, None], "weights")
        table = tf.compat.v1.get_variable("table", (8, 1), initializer=counted(tf))
        shape = tf.concat([ids.dense_shape, [1]], 0)
        places = tf.sparse.reshape(ids, shape)
        sequence = tf.nn.safe_embedding_lookup_sparse(table, places, combiner="mean")
        bag = tf.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner="mean")
        return {"ids": ids, "weights": weights}, {"bag": bag, "sequence": sequence, "lengths": _lengths_of(ids)}

    path = saved(tmp_path / "shared", build)
    executable = compiled(path, target)
    assert len(executable.program.tables) == 1 and len(executable.program.columns) == 2
    matrix, shape = np.array([[0, 0], [0, 1], [1, 0]]), np.array([3, 2])
    feed = {"ids": np.array([2, 3, 5]), "weights": np.array([0.7, 0.3, 1], np.float32)}
    feed |= {f"{key}.{part}": value for key in feed for part, value in (("indices", matrix), ("dense_shape", shape))}
    got = executable(feed)
    np.testing.assert_allclose(got["bag"], [[3.3], [6], [0]], 1e-6)
    assert got["sequence"].tolist() == [[[3], [4]], [[6], [0]], [[0], [0]]]
    assert got["lengths"].tolist() == [2, 1, 0]
    with TensorFlowModel(path) as oracle:
        for name, value in oracle.run(feed).items():
            np.testing.assert_allclose(got[name], value, 1e-6, err_msg=name)


def _lengths_of(ids: Any) -> Any:
    from tensorflow.python.feature_column.utils import sequence_length_from_sparse_tensor

    return sequence_length_from_sparse_tensor(ids)


# -- ragged tensors ----------------------------------------------------------------------------------------------------
RAGGED = ("ids", "hashed", "numbers", "vectors", "nested", "lengths")


def _of_ragged(tf: Any, path: Path, name: str) -> Path:
    module = tf.Module()
    module.table = tf.Variable(np.random.default_rng(1).standard_normal((10, 3)).astype(np.float32))

    def look_up(rows: Any) -> Any:
        if name == "ids":
            return tf.nn.embedding_lookup(module.table, rows.to_tensor())
        if name == "hashed":
            return tf.nn.embedding_lookup(module.table, tf.strings.to_hash_bucket_fast(rows.to_tensor("b"), 10))
        if name == "numbers":
            return rows.to_tensor(-2.0) * 2.0
        if name == "vectors":
            return tf.ragged.map_flat_values(tf.gather, module.table, rows).to_tensor()
        if name == "lengths":
            return tf.nn.embedding_lookup(module.table, rows.to_tensor()), rows.row_lengths()
        return tf.nn.embedding_lookup(module.table, rows).to_tensor()

    dtype = {"hashed": tf.string, "numbers": tf.float32}.get(name, tf.int64)
    spec = tf.RaggedTensorSpec([None, None], dtype, row_splits_dtype=tf.int64)

    def outputs(x: Any) -> dict[str, Any]:
        found = look_up(x)
        return {"dense": found[0], "lengths": found[1]} if name == "lengths" else {"dense": found}

    tf.saved_model.save(module, str(path), signatures=tf.function(outputs).get_concrete_function(x=spec))
    return path


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", RAGGED)
def test_of_ragged_tensors(tmp_path: Path, name: str, target: str) -> None:
    path = _of_ragged(tensorflow(), tmp_path / name, name)
    executable = compiled(path, target)
    assert len(executable.program.columns) == (name != "numbers")
    rng = np.random.default_rng(4)
    sequence = Sequence(lambda c: [], {"x": {"hashed": "string", "numbers": "float32"}.get(name, "int64")})
    with TensorFlowModel(path) as oracle:
        for lengths in LENGTHS:
            values = _draw(sequence.dtypes["x"], sum(lengths), rng, sequence)
            feed: Feed = {}
            for item in oracle.inputs():
                is_splits = item.name.endswith("_1")
                feed[item.name] = np.cumsum([0, *lengths]) if is_splits else values
            _assert_same(executable(feed), oracle.run(feed), lengths)


# -- blocks of Examples ------------------------------------------------------------------------------------------------
def _steps(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    serialized = tf.compat.v1.placeholder(tf.string, [None], "examples")
    feature = tf.io.FixedLenSequenceFeature
    parsed = tf.io.parse_example(
        serialized,
        {
            "ids": feature([], tf.int64, allow_missing=True, default_value=7),
            "words": feature([], tf.string, allow_missing=True, default_value="b"),
            "pairs": feature([2], tf.float32, allow_missing=True, default_value=0.5),
        },
    )
    table = tf.compat.v1.get_variable("table", (10, 3))
    hashed = tf.strings.to_hash_bucket_fast(parsed["words"], 10)
    return {"examples": serialized}, {
        "ids": tf.nn.embedding_lookup(table, parsed["ids"]),
        "words": tf.nn.embedding_lookup(table, hashed),
        "pairs": parsed["pairs"] * 2.0,
        "count": tf.reduce_sum(tf.cast(tf.not_equal(parsed["ids"], 7), tf.int32), 1),
    }


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_of_examples(tmp_path: Path, target: str) -> None:
    path = saved(tmp_path / "steps", _steps)
    executable = compiled(path, target)
    assert len(executable.program.columns) == 2
    program = executable.program
    assert parse_program(print_program(program), consts_of(program)) == program
    rng = np.random.default_rng(5)
    with TensorFlowModel(path) as oracle:
        for lengths in LENGTHS:
            made = [
                encode_example(
                    {
                        "ids": ("int64", rng.integers(0, 10, n).tolist()),
                        "words": ("string", [WORDS[k] for k in rng.integers(len(WORDS), size=n)]),
                        "pairs": ("float32", rng.random(2 * (n // 2)).tolist()),
                    }
                )
                for n in lengths
            ]
            feed = {"examples": _texts(made)}
            _assert_same(executable(feed), oracle.run(feed), lengths)
        half = {"examples": _texts([encode_example({"pairs": ("float32", [1.0, 2.0, 3.0])})])}
        with pytest.raises(OracleError):
            oracle.run(half)
    with pytest.raises(FeedError, match="multiple of 2"):
        executable(half)


# -- Keras -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS)
def test_attention_of_keras_over_ids_but_padding(tmp_path: Path, target: str) -> None:
    tf = tensorflow()
    keras = tf.keras
    keras.utils.set_random_seed(3)
    items = keras.Input((None,), dtype="int64", name="items")
    item = keras.Input((1,), dtype="int64", name="item")
    shared = keras.layers.Embedding(12, 4, mask_zero=True)
    history, wanted = shared(items), keras.layers.Embedding(12, 4)(item)
    seen = keras.layers.Attention()([wanted, history], mask=[None, shared.compute_mask(items)])
    joined = keras.layers.Concatenate()([keras.layers.Flatten()(seen), keras.layers.Flatten()(wanted)])
    model = keras.Model([items, item], {"y": keras.layers.Dense(2, activation="relu")(joined)})
    model.export(str(tmp_path / "din"), verbose=False)
    executable = compiled(tmp_path / "din", target)
    assert len(executable.program.columns) == 2
    answer = tf.saved_model.load(str(tmp_path / "din")).signatures["serving_default"]
    rng = np.random.default_rng(2)
    for rows, width in ((4, 5), (1, 1), (3, 0), (0, 2)):
        feed = {"items": rng.integers(0, 12, (rows, width)), "item": rng.integers(0, 12, (rows, 1))}
        feed["items"][:1] = 0
        want = answer(**{k: tf.constant(v) for k, v in feed.items()})["y"].numpy()
        np.testing.assert_allclose(executable(feed)["y"], want, 1e-5, 1e-6, err_msg=f"{rows} x {width}")
