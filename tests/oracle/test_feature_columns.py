"""Every kind of feature column as columns: TensorFlow's answer on corner rows, bit for bit, on every target."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.errors import IdRangeError
from colonnade.executable import Executable
from colonnade.testing.oracle import OracleError, TensorFlowModel
from tests.oracle.tf_models import TARGETS, compiled, layer, saved

Array = np.ndarray[Any, Any]
HUGE = (2**63 - 1, -(2**63), 2**31, -(2**31), 2**32 + 3)


@dataclass(frozen=True)
class Kind:
    """A feature column, requests of corner rows, and how many columns it must become; what TensorFlow refuses.

    Facts: strings of rank 1 are split at semicolons.
    """

    make: Callable[[Any], Any]
    columns: int
    feed: Mapping[str, Array]
    refused: Mapping[str, Array] = field(default_factory=dict)

    def build(self, tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The input layer of the one feature column; a placeholder an array, its first dim open."""
        features = {
            key: tf.compat.v1.placeholder(tf.string if x.dtype == object else x.dtype, (None, *x.shape[1:]), key)
            for key, x in self.feed.items()
        }
        tokens = {
            key: tf.compat.v1.strings.split(x, sep=";", result_type="SparseTensor")
            for key, x in features.items()
            if x.shape.rank == 1
        }
        return features, layer(tf, features | tokens, self.make(tf))


KINDS: dict[str, Kind] = {}


def kind(
    feed: Mapping[str, Array], refused: Mapping[str, Array] | None = None, columns: int = 1
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Registers a feature column by the name of its function."""

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        KINDS[make.__name__] = Kind(make, columns, feed, refused or {})
        return make

    return register


def ints(*rows: int | tuple[int, ...], dtype: Any = np.int64) -> Array:
    return np.array(rows, dtype).reshape(len(rows), -1)


def floats(*rows: float | tuple[float, ...]) -> Array:
    return np.array(rows, np.float32).reshape(len(rows), -1)


def texts(*rows: str | tuple[str, ...]) -> Array:
    cells = [[row] if isinstance(row, str) else row for row in rows]
    return np.array([[cell.encode("latin-1") for cell in row] for row in cells], object).reshape(len(rows), -1)


def embedded(tf: Any, of: Any, dim: int = 3, combiner: str = "mean") -> Any:
    normal = tf.compat.v1.random_normal_initializer(seed=3)
    return tf.feature_column.embedding_column(of, dim, combiner=combiner, initializer=normal)


# -- identity ----------------------------------------------------------------------------------------------------------
IDS = ints(3, 0, 9, -1, -7, 10, *HUGE)


@kind({"ids": ints(3, 0, 9, -1, -7, -(2**63))}, {"ids": ints(3, 10)})
def identity(tf: Any) -> Any:
    return embedded(tf, tf.feature_column.categorical_column_with_identity("ids", 10))


@kind({"ids": IDS})
def identity_with_default(tf: Any) -> Any:
    return embedded(tf, tf.feature_column.categorical_column_with_identity("ids", 10, default_value=3))


@kind({"ids": ints((3, 0, -1), (-1, -1, -1), (10, 10, 9), (-7, 2**31 - 1, -(2**31)), dtype=np.int32)})
def identity_of_several_with_default(tf: Any) -> Any:
    of = tf.feature_column.categorical_column_with_identity("ids", 10, default_value=0)
    return embedded(tf, of, 5, "sqrtn")


# -- buckets of several numbers ----------------------------------------------------------------------------------------
NAN, INF = float("nan"), float("inf")
PAIRS = floats((NAN, -1), (0, 10), (-0.0, INF), (1e-45, -1e-45), (9.99, -INF), (3e38, 100), (-3e38, NAN))


@kind({"x": PAIRS})
def buckets_of_two(tf: Any) -> Any:
    return embedded(tf, tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x", (2,)), [0.0, 10.0]))


@kind({"x": np.tile(PAIRS.astype(np.float64), 9)[:, :17]})
def buckets_of_many(tf: Any) -> Any:
    numbers = tf.feature_column.numeric_column("x", (17,), dtype=tf.float64)
    return embedded(tf, tf.feature_column.bucketized_column(numbers, [-1.0, 0.0, 0.1, 10.0]), 5, "sqrtn")


@kind({"x": np.arange(-6, 18, dtype=np.int32).reshape(-1, 4)})
def buckets_of_integers(tf: Any) -> Any:
    numbers = tf.feature_column.numeric_column("x", (4,), dtype=tf.int32)
    return embedded(tf, tf.feature_column.bucketized_column(numbers, [0.0, 5.0]), 2, "sum")


# -- vocabularies ------------------------------------------------------------------------------------------------------
WORDS = texts("x", "", "yy", "zz", "X", "x\0", "\xe9", "\xc3\xa9", "y" * 70, "w" * 64, "nothing", "w" * 63)
VOCABULARY = ["yy", "x", "w" * 64, "é", "y" * 70]


def words(tf: Any, **options: Any) -> Any:
    return tf.feature_column.categorical_column_with_vocabulary_list("x", VOCABULARY, **options)


@kind({"x": WORDS})
def list_of_words(tf: Any) -> Any:
    return embedded(tf, words(tf))


@kind({"x": WORDS})
def list_of_words_with_default(tf: Any) -> Any:
    return embedded(tf, words(tf, default_value=2))


@kind({"x": np.concatenate([WORDS, WORDS[::-1], np.roll(WORDS, 4)], 1)})
def list_of_words_with_buckets(tf: Any) -> Any:
    return embedded(tf, words(tf, num_oov_buckets=4), 5, "sqrtn")


@kind({"x": texts("x;yy;;nothing", "", ";", "zz", "w;" * 9).reshape(-1)})
def split_words(tf: Any) -> Any:
    return embedded(tf, words(tf, num_oov_buckets=1), 2, "sum")


NUMBERS = ints(7, -3, 100, 0, -1, 8, *HUGE)


@kind({"x": NUMBERS})
def list_of_integers(tf: Any) -> Any:
    of = tf.feature_column.categorical_column_with_vocabulary_list("x", [7, -3, 100, 2**63 - 1], num_oov_buckets=3)
    return embedded(tf, of)


@kind({"x": ints((7, -3), (100, 7), (-1, -1), (-1, 5), dtype=np.int32)})
def list_of_narrow_integers(tf: Any) -> Any:
    of = tf.feature_column.categorical_column_with_vocabulary_list("x", [7, -3, 100], tf.int32, default_value=1)
    return embedded(tf, of, 4, "sum")


@kind({"x": WORDS})
def file_of_words(tf: Any) -> Any:
    return embedded(tf, of_file(tf, b"x\nyy\n\xe9\n" + b"w" * 64 + b"\n"))


@kind({"x": WORDS})
def file_of_words_with_buckets(tf: Any) -> Any:
    return embedded(tf, of_file(tf, b"x\r\nyy\nzz", vocabulary_size=2, num_oov_buckets=5))


@kind({"x": NUMBERS})
def file_of_integers(tf: Any) -> Any:
    return embedded(tf, of_file(tf, b"7\n-3\n100\n", dtype=tf.int64, default_value=0))


def of_file(tf: Any, content: bytes, **options: Any) -> Any:
    path = Path(tempfile.mkdtemp()) / "words.txt"
    path.write_bytes(content)
    return tf.feature_column.categorical_column_with_vocabulary_file("x", str(path), **options)


# -- indicators --------------------------------------------------------------------------------------------------------
@kind({"x": ints((1, 1, 4), (-1, -1, -1), (0, 5, -7), (3, -1, 3), (2**63 - 1, 4, 2**32))})
def indicator_of_identity(tf: Any) -> Any:
    return tf.feature_column.indicator_column(tf.feature_column.categorical_column_with_identity("x", 5))


@kind({"x": PAIRS[:, :1]})
def indicator_of_buckets(tf: Any) -> Any:
    buckets = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x"), [0.0, 10.0])
    return tf.feature_column.indicator_column(buckets)


@kind({"x": PAIRS})
def indicator_of_buckets_of_two(tf: Any) -> Any:
    buckets = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x", (2,)), [0.0, 10.0, 11.0])
    return tf.feature_column.indicator_column(buckets)


@kind({"x": PAIRS[:, :1]})
def buckets_themselves(tf: Any) -> Any:
    return tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x"), [-1.0, 0.0, 10.0])


@kind({"x": np.concatenate([PAIRS, PAIRS[::-1, :1]], 1)})
def buckets_of_three_themselves(tf: Any) -> Any:
    return tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x", (3,)), [0.0, 10.0])


@kind({"x": np.concatenate([WORDS, WORDS, WORDS[::-1]], 1)})
def indicator_of_words(tf: Any) -> Any:
    return tf.feature_column.indicator_column(words(tf))


@kind({"x": texts("x;yy;;nothing;x;x", "", ";", "zz", "w;" * 9).reshape(-1)})
def indicator_of_split_words(tf: Any) -> Any:
    return tf.feature_column.indicator_column(words(tf, num_oov_buckets=2))


@kind({"x": ints((1, 2), (-1, 7), (5, 5), (-1, -1))})
def indicator_of_a_hash(tf: Any) -> Any:
    return tf.feature_column.indicator_column(tf.feature_column.categorical_column_with_hash_bucket("x", 30, tf.int64))


@kind({"x": IDS})
def indicator_of_one(tf: Any) -> Any:
    return tf.feature_column.indicator_column(tf.feature_column.categorical_column_with_identity("x", 1, 0))


# -- crosses -----------------------------------------------------------------------------------------------------------
LETTERS = {
    "a": texts("x", "", "yy", "\xe9", "x" * 40, "a", "a"),
    "b": texts("p", "q", "", "", "y" * 65, "b", "b"),
    "n": floats(-1, 0, NAN, 10, INF, -INF, 5),
    "i": ints(3, -1, 0, 7, 2**63 - 1, 7, -1),
}


def buckets(tf: Any) -> Any:
    return tf.feature_column.bucketized_column(tf.feature_column.numeric_column("n"), [0.0, 10.0])


def letters(*keys: str) -> dict[str, Array]:
    return {key: LETTERS[key] for key in keys}


@kind(letters("a", "b"))
def cross_of_strings(tf: Any) -> Any:
    return embedded(tf, tf.feature_column.crossed_column(["a", "b"], 100))


@kind(letters("a", "b", "n"))
def cross_of_three_with_a_key(tf: Any) -> Any:
    return embedded(tf, tf.feature_column.crossed_column(["b", buckets(tf), "a"], 1000, hash_key=12345), 2, "sum")


@kind(letters("a", "i"))
def cross_with_missing_ids(tf: Any) -> Any:
    of = tf.feature_column.categorical_column_with_identity("i", 100)
    return embedded(tf, tf.feature_column.crossed_column(["a", of], 50))


@kind(letters("n", "a"))
def indicator_of_a_cross(tf: Any) -> Any:
    return tf.feature_column.indicator_column(tf.feature_column.crossed_column([buckets(tf), "a"], 17))


@kind({"a": texts("x", "", "yy"), "i": ints(3, 4, 5)})
def cross_of_vocabularies(tf: Any) -> Any:
    of_a = tf.feature_column.categorical_column_with_vocabulary_list("a", ["x", "yy"], num_oov_buckets=2)
    of_i = tf.feature_column.categorical_column_with_vocabulary_list("i", [3, 5])
    return embedded(tf, tf.feature_column.crossed_column([of_a, of_i], 30))


# -- checks ------------------------------------------------------------------------------------------------------------
class Model:
    """A SavedModel, TensorFlow's answers, and ours by target."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensorflow = TensorFlowModel(path)
        self.targets: dict[str, Executable] = {}

    def on(self, target: str) -> Executable:
        if target not in self.targets:
            self.targets[target] = compiled(self.path, target)
        return self.targets[target]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Model]]:
    folder = tmp_path_factory.mktemp("kinds")
    made: dict[str, Model] = {}

    def model(name: str) -> Model:
        if name not in made:
            made[name] = Model(saved(folder / name, KINDS[name].build))
        return made[name]

    yield model
    for each in made.values():
        each.tensorflow.close()


def requests(feed: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """All rows, no row, one row, rows in another order and repeated."""
    rows = len(next(iter(feed.values())))
    shuffled = np.random.default_rng(rows).integers(rows, size=33)
    for chosen in (slice(None), slice(0), slice(1, 2), shuffled):
        yield {key: values[chosen] for key, values in feed.items()}


@pytest.mark.parametrize("name", KINDS)
def test_answers_are_tensorflows(models: Callable[[str], Model], name: str) -> None:
    model = models(name)
    for request in requests(KINDS[name].feed):
        expected = model.tensorflow.run(request)["out"]
        for target in TARGETS if len(expected) < 20 else TARGETS[:2]:  # the interpreter is slow
            got = model.on(target)(request)["out"]
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), target
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6, err_msg=target)
            if target == "reference":
                assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", KINDS)
def test_everything_is_a_column(models: Callable[[str], Model], name: str) -> None:
    program = models(name).on("cpu").program
    assert len(program.columns) == KINDS[name].columns and not program.dense


def test_a_vocabulary_travels_with_the_artifact(tmp_path: Path) -> None:
    keys = [f"key {i}" for i in range(100)]
    asked = texts(*keys[::3], "key", "key 100", "")

    def make(tf: Any) -> Any:
        return embedded(tf, tf.feature_column.categorical_column_with_vocabulary_list("x", keys, num_oov_buckets=2))

    path = saved(tmp_path / "model", Kind(make, 1, {"x": asked}).build)
    with TensorFlowModel(path) as model:
        expected = model.run({"x": asked})["out"]
    compiler.compile(path).save(tmp_path / "artifact")
    assert compiler.load(tmp_path / "artifact")({"x": asked})["out"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("table_dtype", [None, "float16", "int8-rowwise"])
def test_an_identity_matrix_travels_with_the_artifact(
    models: Callable[[str], Model], tmp_path: Path, table_dtype: str | None
) -> None:
    model, feed = models("indicator_of_split_words"), dict(KINDS["indicator_of_split_words"].feed)
    expected = model.tensorflow.run(feed)["out"]
    compiler.compile(model.path, table_dtype=table_dtype).save(tmp_path / "first")
    compiler.refresh(model.path, tmp_path / "first", tmp_path / "second")
    for folder in ("first", "second"):
        np.testing.assert_allclose(compiler.load(tmp_path / folder)(feed)["out"], expected, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name, each in KINDS.items() if each.refused])
def test_what_tensorflow_refuses_is_refused(models: Callable[[str], Model], name: str) -> None:
    model, request = models(name), KINDS[name].refused
    with pytest.raises(OracleError):
        model.tensorflow.run(request)
    for target in TARGETS:
        with pytest.raises(IdRangeError):
            model.on(target)(request)
