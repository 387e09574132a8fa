"""Keras 3 layers as columns: TensorFlow's answer on corner rows, on every target, for both ways to save a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.errors import IdRangeError
from colonnade.executable import Executable
from colonnade.testing.tensorflow import tensorflow

Array = np.ndarray[Any, Any]
TARGETS = ("reference", "cpu", "gpu")
NAN, INF = float("nan"), float("inf")
HUGE = (2**63 - 1, -(2**63), 2**31, -(2**31), 2**32 + 3)


@dataclass(frozen=True)
class Kind:
    """Layers, requests of corner rows, how many columns they must become; what TensorFlow refuses.

    dense: calls of the dense rest.   exact: whether the answers are equal bit for bit.   empty: whether TensorFlow
    answers a batch without rows.
    """

    make: Callable[..., Any]
    columns: int
    dense: int
    exact: bool
    feed: Mapping[str, Array]
    refused: Mapping[str, Array] = field(default_factory=dict)
    empty: bool = True


KINDS: dict[str, Kind] = {}


def kind(
    feed: Mapping[str, Array],
    refused: Mapping[str, Array] | None = None,
    *,
    columns: int = 1,
    dense: int = 0,
    exact: bool = True,
    empty: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers layers by the name of their function, which gets `keras` and an input an array of the request."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        KINDS[make.__name__] = Kind(make, columns, dense, exact, feed, refused or {}, empty)
        return make

    return register


def ints(*rows: int | tuple[int, ...], dtype: Any = np.int64) -> Array:
    return np.array(rows, dtype).reshape(len(rows), -1)


def floats(*rows: float | tuple[float, ...]) -> Array:
    return np.array(rows, np.float32).reshape(len(rows), -1)


def texts(*rows: str | tuple[str, ...]) -> Array:
    cells = [[row] if isinstance(row, str) else row for row in rows]
    return np.array([[cell.encode() for cell in row] for row in cells], object).reshape(len(rows), -1)


def embedded(keras: Any, ids: Any, rows: int, dim: int = 3, **options: Any) -> Any:
    normal = keras.initializers.RandomNormal(seed=3)
    return keras.layers.Embedding(rows, dim, embeddings_initializer=normal, **options)(ids)


def flat(keras: Any, ids: Any, rows: int, dim: int = 3) -> Any:
    return keras.layers.Flatten()(embedded(keras, ids, rows, dim))


# -- ids as they are ---------------------------------------------------------------------------------------------------
@kind({"x": ints(3, 0, 9, -1, -10)}, {"x": ints(3, 10)})
def ids(keras: Any, x: Any) -> Any:
    return flat(keras, x, 10)


@kind({"x": ints(3, 0, 9, -1, -10, dtype=np.int32)}, {"x": ints(3, -11, dtype=np.int32)})
def narrow_ids(keras: Any, x: Any) -> Any:
    return flat(keras, x, 10)


@kind({"x": np.array([3, 0, 9, -1, -10])}, {"x": np.array([-(2**63)])})
def ids_of_rank_one(keras: Any, x: Any) -> Any:
    return embedded(keras, x, 10)


# -- hashing -----------------------------------------------------------------------------------------------------------
WORDS = texts("x", "", "yy", "zz", "X", "x\0", "é", "e\u0301", "y" * 70, "w" * 64, "nothing", "[UNK]", "w" * 63)
NUMBERS = ints(0, 7, -3, -1, 100, 5, *HUGE)
SMALL = ints(0, 7, -3, -1, 100, 5, 2**31 - 1, -(2**31), dtype=np.int32)


@kind({"x": WORDS})
def hashed(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11)(x), 11)


@kind({"x": WORDS})
def hashed_but_empty(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11, mask_value="")(x), 11)


@kind({"x": WORDS})
def hashed_into_one_but_empty(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(2, mask_value="")(x), 2)


@kind({"x": NUMBERS})
def hashed_numbers_into_one_but_one(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(2, mask_value=-1)(x), 2)


@kind({"x": NUMBERS})
def hashed_numbers_into_one(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(1)(x), 1)


@kind({"x": NUMBERS})
def hashed_numbers(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11)(x), 11)


@kind({"x": NUMBERS})
def hashed_numbers_but_one(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11, mask_value=-1)(x), 11)


@kind({"x": SMALL})
def hashed_small_numbers_but_one(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11, mask_value=-1)(x), 11)


@kind({"x": WORDS})
def salted(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11, salt=133)(x), 11)


@kind({"x": WORDS})
def salted_but_empty(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11, salt=[0, 2**63 - 1], mask_value="")(x), 11)


@kind({"x": NUMBERS})
def salted_numbers(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(1000, salt=(133, 137))(x), 1000)


@kind({"x": SMALL})
def salted_small_numbers_but_one(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(11, salt=7, mask_value=-1)(x), 11)


@kind({"x": WORDS})
def words_with_salted_buckets(keras: Any, x: Any) -> Any:
    layer = keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=4, salt=[3, -4], mask_token="")
    return flat(keras, layer(x), 10)


@kind({"x": WORDS})
def salted_into_one_but_empty(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Hashing(2, salt=7, mask_value="")(x), 2)


# -- vocabularies ------------------------------------------------------------------------------------------------------
KNOWN = ["yy", "x", "w" * 64, "é", "y" * 70]


@kind({"x": WORDS})
def words(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.StringLookup(vocabulary=KNOWN)(x), 6)


@kind({"x": WORDS})
def words_but_empty(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.StringLookup(vocabulary=KNOWN, mask_token="")(x), 7)


@kind({"x": WORDS})
def words_with_buckets(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=3)(x), 8)


@kind({"x": WORDS})
def words_with_buckets_but_empty(keras: Any, x: Any) -> Any:
    layer = keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=3, mask_token="")
    return flat(keras, layer(x), 9)


@kind({"x": WORDS})
def words_of_a_file(keras: Any, x: Any) -> Any:
    path = Path(keras.words_file)
    path.write_text("\n".join(KNOWN) + "\n", newline="\n")
    return flat(keras, keras.layers.StringLookup(vocabulary=str(path), num_oov_indices=2, mask_token="")(x), 8)


@kind({"x": NUMBERS})
def numbers(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.IntegerLookup(vocabulary=[7, -3, 2**63 - 1])(x), 4)


@kind({"x": NUMBERS})
def numbers_with_buckets(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.IntegerLookup(vocabulary=[7, -3, 2**63 - 1], num_oov_indices=3)(x), 6)


@kind({"x": NUMBERS})
def numbers_with_buckets_but_one(keras: Any, x: Any) -> Any:
    layer = keras.layers.IntegerLookup(vocabulary=[7, -3, 2**63 - 1], num_oov_indices=3, mask_token=-1)
    return flat(keras, layer(x), 7)


@kind({"x": SMALL})
def small_numbers_but_one(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.IntegerLookup(vocabulary=[7, -3], mask_token=0)(x), 4)


# -- vocabularies that refuse what they lack: an id outside ------------------------------------------------------------
INSIDE = texts("x", "yy", "w" * 64, "é")
OUTSIDE = texts("x", "nothing")


@kind({"x": INSIDE}, {"x": OUTSIDE})
def known_words(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=0)(x), 5)


@kind({"x": texts("x", "", "yy", "")}, {"x": OUTSIDE})
def known_words_but_empty(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=0, mask_token="")(x), 6)


@kind({"x": ints(7, -3, 2**63 - 1)}, {"x": ints(7, 8)})
def known_numbers(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.IntegerLookup(vocabulary=[7, -3, 2**63 - 1], num_oov_indices=0)(x), 3)


@kind({"x": INSIDE}, {"x": OUTSIDE})
def marked_known_word(keras: Any, x: Any) -> Any:
    layer = keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=0, output_mode="one_hot")
    return as_floats(keras, layer(x))


@kind({"x": INSIDE.reshape(2, 2)}, {"x": OUTSIDE.reshape(1, 2)}, dense=1)
def marked_known_words(keras: Any, x: Any) -> Any:
    layer = keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=0, output_mode="multi_hot")
    return as_floats(keras, layer(x))


@kind({"x": INSIDE}, {"x": OUTSIDE}, columns=2)
def known_words_twice(keras: Any, x: Any) -> Any:
    ids = keras.layers.StringLookup(vocabulary=KNOWN, num_oov_indices=0)(x)
    return joined(keras, flat(keras, ids, 5), flat(keras, ids, 5, 2))


# -- buckets -----------------------------------------------------------------------------------------------------------
BOUNDARIES = [0.0, 10.0, 100.0]
VALUES = floats(-1, 0, -0.0, 10, NAN, INF, -INF, 1e-45, -1e-45, 9.9999, 100)


@kind({"x": VALUES})
def buckets(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Discretization(BOUNDARIES)(x), 4)


@kind({"x": VALUES.reshape(-1)})
def buckets_of_rank_one(keras: Any, x: Any) -> Any:
    return embedded(keras, keras.layers.Discretization(BOUNDARIES)(x), 4)


@kind({"x": SMALL})
def buckets_of_integers(keras: Any, x: Any) -> Any:
    return flat(keras, keras.layers.Discretization(BOUNDARIES)(x), 4)


@kind({"x": VALUES}, dense=0)
def marked_buckets(keras: Any, x: Any) -> Any:
    return keras.layers.Discretization(BOUNDARIES, output_mode="one_hot")(x)


# -- marks and counts --------------------------------------------------------------------------------------------------
SEVERAL = texts(("x", "", "yy", "yy"), ("zz", "zz", "zz", "zz"), ("", "", "", ""), ("é", "x\0", "x", "w" * 64))
SEVERAL_IDS = ints((3, 0, 6, 6), (7, 8, 2**24 + 1, 0), (1, 1, 1, 1), (7, 7, 7, 7))
REFUSED_IDS = ints((3, 0, 6, -1), (3, 0, 6, 2**31))


@kind({"x": ints(3, 0, 6, 7, -1, *HUGE)})
def marked_ids(keras: Any, x: Any) -> Any:
    return keras.layers.CategoryEncoding(7, output_mode="one_hot")(x)


@kind({"x": SEVERAL_IDS}, {"x": REFUSED_IDS}, dense=1)
def marked_ids_of_several(keras: Any, x: Any) -> Any:
    return keras.layers.CategoryEncoding(7, output_mode="multi_hot")(x)


@kind({"x": SEVERAL_IDS}, {"x": REFUSED_IDS})
def counted_ids(keras: Any, x: Any) -> Any:
    return keras.layers.CategoryEncoding(7, output_mode="count")(x)


WEIGHTS = floats((1, -2, 0.5, 3), (NAN, 1, 2, INF), (0.25, 1e-3, -0.0, 7), (3e38, 3e38, 1, 1))


@kind({"x": SEVERAL_IDS, "z": WEIGHTS}, {"x": REFUSED_IDS[:1], "z": WEIGHTS[:1]}, dense=5, exact=False)
def weighted_counts(keras: Any, x: Any, z: Any) -> Any:
    return keras.layers.CategoryEncoding(7, output_mode="count")(x, count_weights=z)


def as_floats(keras: Any, x: Any) -> Any:
    return keras.ops.cast(x, "float32")


@kind({"x": WORDS})
def marked_word(keras: Any, x: Any) -> Any:
    return as_floats(keras, keras.layers.StringLookup(vocabulary=KNOWN, output_mode="one_hot")(x))


@kind({"x": WORDS}, dense=6)
def marked_word_in_integers(keras: Any, x: Any) -> Any:
    return keras.layers.StringLookup(vocabulary=KNOWN, output_mode="one_hot", num_oov_indices=2)(x)


@kind({"x": SEVERAL}, dense=1)
def marked_words(keras: Any, x: Any) -> Any:
    layer = keras.layers.StringLookup(vocabulary=KNOWN, output_mode="multi_hot", num_oov_indices=2)
    return as_floats(keras, layer(x))


@kind({"x": SEVERAL})
def counted_words_but_empty(keras: Any, x: Any) -> Any:
    return as_floats(keras, keras.layers.StringLookup(vocabulary=KNOWN, output_mode="count", mask_token="")(x))


@kind({"x": SEVERAL}, dense=1)
def weighted_words(keras: Any, x: Any) -> Any:
    return keras.layers.StringLookup(vocabulary=KNOWN, output_mode="tf_idf", idf_weights=[0.5, 0.1, 1.5, 2, 3])(x)


@kind({"x": SEVERAL_IDS}, dense=1)
def marked_numbers(keras: Any, x: Any) -> Any:
    layer = keras.layers.IntegerLookup(vocabulary=[7, 3], output_mode="multi_hot", mask_token=0, max_tokens=6)
    return as_floats(keras, layer(x))


@kind({"x": np.tile(VALUES, (1, 3))})
def counted_buckets(keras: Any, x: Any) -> Any:
    return keras.layers.Discretization(BOUNDARIES, output_mode="count")(x)


# -- crosses -----------------------------------------------------------------------------------------------------------
CROSSED = {"x": WORDS, "z": np.resize(NUMBERS, (len(WORDS), 1))}


@kind(CROSSED)
def crossed(keras: Any, x: Any, z: Any) -> Any:
    return flat(keras, keras.layers.HashedCrossing(13)((x, z)), 13)


@kind({"x": WORDS, "z": np.resize(VALUES, (len(WORDS), 1))})
def crossed_with_buckets(keras: Any, x: Any, z: Any) -> Any:
    return flat(keras, keras.layers.HashedCrossing(13)((x, keras.layers.Discretization(BOUNDARIES)(z))), 13)


@kind(CROSSED)
def marked_cross(keras: Any, x: Any, z: Any) -> Any:
    return keras.layers.HashedCrossing(13, output_mode="one_hot")((x, z))


@kind({"x": WORDS.reshape(-1), "z": np.resize(NUMBERS, len(WORDS))}, empty=False)
def crossed_of_rank_one(keras: Any, x: Any, z: Any) -> Any:
    return embedded(keras, keras.layers.HashedCrossing(13)((x, z)), 13)


# -- several ids a row, pooled -----------------------------------------------------------------------------------------
LONG = np.resize(WORDS, (5, 13))
PADDED = ints((3, 0, 6, 6), (0, 0, 0, 0), (-1, 1, 0, 9), (-10, 0, 0, 0))


@kind({"x": SEVERAL}, exact=False)
def average(keras: Any, x: Any) -> Any:
    return keras.layers.GlobalAveragePooling1D()(embedded(keras, keras.layers.Hashing(11)(x), 11))


@kind({"x": LONG}, exact=False)
def average_of_many(keras: Any, x: Any) -> Any:
    return keras.ops.mean(embedded(keras, keras.layers.Hashing(11)(x), 11), axis=1)


@kind({"x": PADDED}, {"x": ints((3, 0, 6, 10))}, exact=False)
def total(keras: Any, x: Any) -> Any:
    return keras.ops.sum(embedded(keras, x, 10), axis=-2)


@kind({"x": SEVERAL}, columns=2, dense=1, exact=False)
def average_of_known(keras: Any, x: Any) -> Any:
    ids = keras.layers.StringLookup(vocabulary=KNOWN, mask_token="")(x)
    return keras.layers.GlobalAveragePooling1D()(embedded(keras, ids, 7, mask_zero=True))


@kind({"x": PADDED}, {"x": ints((3, 0, 6, 10))}, columns=2, dense=1, exact=False)
def average_but_padding(keras: Any, x: Any) -> Any:
    return keras.layers.GlobalAveragePooling1D()(embedded(keras, x, 10, mask_zero=True))


@kind({"x": PADDED.astype(np.int32)}, columns=2, dense=1, exact=False)
def average_of_narrow_but_padding(keras: Any, x: Any) -> Any:
    return keras.layers.GlobalAveragePooling1D()(embedded(keras, x, 10, mask_zero=True))


# -- places of one matrix ----------------------------------------------------------------------------------------------
MATRIX = np.stack([NUMBERS[:, 0], np.arange(len(NUMBERS)) % 7, np.resize([7, -3, 0, 2**63 - 1], len(NUMBERS))], axis=1)


def joined(keras: Any, *parts: Any) -> Any:
    return keras.layers.Concatenate()(parts)


@kind({"x": MATRIX}, {"x": ints((0, 1, 0), (0, 10, 0))}, columns=4)
def places_of_numbers(keras: Any, x: Any) -> Any:
    hashed = flat(keras, keras.layers.Hashing(11)(x[:, 0:1]), 11)
    known = embedded(keras, keras.layers.IntegerLookup(vocabulary=[7, -3, 2**63 - 1])(x[:, 2]), 4)
    return joined(keras, hashed, embedded(keras, x[:, 1], 10), known, flat(keras, keras.layers.Hashing(9)(x[:, 1:]), 9))


@kind({"x": np.stack([VALUES[:, 0], np.roll(VALUES[:, 0], 1), np.roll(VALUES[:, 0], 5)], axis=1)}, columns=3)
def places_of_floats(keras: Any, x: Any) -> Any:
    parts = keras.ops.split(x, 3, axis=1)
    return joined(keras, *(flat(keras, keras.layers.Discretization(BOUNDARIES)(part), 4) for part in parts))


@kind({"x": SEVERAL}, columns=4)
def places_of_words(keras: Any, x: Any) -> Any:
    words = embedded(keras, keras.layers.StringLookup(vocabulary=KNOWN, mask_token="")(x[:, 0]), 7)
    several = flat(keras, keras.layers.Hashing(11, mask_value="")(x[:, 1:3]), 11)
    marked = as_floats(keras, keras.layers.StringLookup(vocabulary=KNOWN, output_mode="one_hot")(x[:, 3:]))
    return joined(keras, words, several, marked, flat(keras, keras.layers.Hashing(5)(x), 5))


@kind({"x": MATRIX.astype(np.float32)}, columns=2, dense=3, exact=False)
def a_place_and_all_of_them(keras: Any, x: Any) -> Any:
    """The dense rest reads the matrix as well."""
    buckets = [flat(keras, keras.layers.Discretization(BOUNDARIES)(x[:, k : k + 1]), 4) for k in (1, 2)]
    return joined(keras, *buckets, keras.layers.Rescaling(0.5)(x))


# -- the models --------------------------------------------------------------------------------------------------------
class Model:
    """One kind, saved one way: as TensorFlow and as every target answers it."""

    def __init__(self, name: str, way: str, folder: Path) -> None:
        keras = tensorflow().keras
        keras.utils.set_random_seed(7)
        keras.words_file = folder / f"{name}.txt"
        made = KINDS[name]
        inputs = {
            key: keras.Input(x.shape[1:], name=key, dtype="string" if x.dtype == object else str(x.dtype))
            for key, x in made.feed.items()
        }
        model = keras.Model(inputs, {"out": made.make(keras, **inputs)})
        self.path = folder / f"{name}-{way}"
        self._save(model, way)
        self._signature = tensorflow().saved_model.load(str(self.path)).signatures["serving_default"]
        named = sorted(self._signature.structured_input_signature[1], key=lambda n: (len(n), n))
        self.names = dict(zip(sorted(made.feed), named, strict=True))
        self._targets: dict[str, Executable] = {}

    def _save(self, model: Any, way: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if way == "export":
                model.export(str(self.path), verbose=False)
            else:
                tensorflow().saved_model.save(model, str(self.path))

    def tensorflow(self, feed: Mapping[str, Array]) -> Array:
        tf = tensorflow()
        fed = {self.names[key]: tf.constant(x, tf.string if x.dtype == object else x.dtype) for key, x in feed.items()}
        answer: Array = self._signature(**fed)["out"].numpy()
        return answer

    def on(self, target: str) -> Executable:
        if target not in self._targets:
            self._targets[target] = self._compiled(target)
        return self._targets[target]

    def ours(self, target: str, feed: Mapping[str, Array]) -> Array:
        answer: Array = self.on(target)({self.names[key]: x for key, x in feed.items()})["out"]
        return answer

    def _compiled(self, target: str) -> Executable:
        if target != "gpu":
            return compiler.compile(self.path, target)
        program, weights, explanation, _ = compiler.lower(self.path)
        return Executable(program, weights, GpuBackend(interpret=True), explanation=explanation)


Models = Callable[..., Model]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("keras")
    made: dict[tuple[str, str], Model] = {}

    def model(name: str, way: str = "export") -> Model:
        if (name, way) not in made:
            made[name, way] = Model(name, way, folder)
        return made[name, way]

    return model


def requests(feed: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """All rows, no row, one row, rows in another order and repeated."""
    rows = len(next(iter(feed.values())))
    shuffled = np.random.default_rng(rows).integers(rows, size=33)
    for chosen in (slice(None), slice(0), slice(1, 2), shuffled):
        yield {key: values[chosen] for key, values in feed.items()}


def check(model: Model, made: Kind, targets: tuple[str, ...]) -> None:
    for request in requests(made.feed):
        if not made.empty and not len(next(iter(request.values()))):
            assert not len(model.ours("cpu", request))
            continue
        expected = model.tensorflow(request)
        for target in targets if len(expected) < 20 else targets[:2]:  # the interpreter is slow
            got = model.ours(target, request)
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), target
            np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6, err_msg=target)
            if made.exact:
                assert got.tobytes() == expected.tobytes(), target


@pytest.mark.parametrize("name", KINDS)
def test_answers_are_tensorflows(models: Models, name: str) -> None:
    check(models(name), KINDS[name], TARGETS)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_a_column(models: Models, name: str) -> None:
    program = models(name).on("cpu").program
    calls = [line for line in program.dense if line.op != "aten.slice.Tensor"]  # views of a buffer that columns share
    assert (len(program.columns), len(calls)) == (KINDS[name].columns, KINDS[name].dense)


SAVED = (
    *("ids", "average_of_known", "marked_words", "hashed_but_empty", "words_of_a_file"),
    *("numbers_with_buckets_but_one", "buckets"),
)


@pytest.mark.parametrize("name", SAVED)
def test_a_model_saved_by_tensorflow_itself(models: Models, name: str) -> None:
    check(models(name, "save"), KINDS[name], ("cpu",))
    assert len(models(name, "save").on("cpu").program.columns) == KINDS[name].columns


@pytest.mark.parametrize("name", [name for name, each in KINDS.items() if each.refused])
def test_what_tensorflow_refuses_is_refused(models: Models, name: str) -> None:
    model, request = models(name), KINDS[name].refused
    with pytest.raises(tensorflow().errors.InvalidArgumentError):
        model.tensorflow(request)
    for target in TARGETS:
        with pytest.raises(IdRangeError):
            model.ours(target, request)
