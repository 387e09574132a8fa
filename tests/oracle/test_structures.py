"""What stands behind columns when it is no concat: every lookup is a column all the same, every answer TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import compiler
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.executable import Executable
from colonnade.testing.oracle import TensorFlowModel
from tests.oracle.tf_models import saved

Array = np.ndarray[Any, Any]
Make = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
TARGETS = ("reference", "cpu", "gpu")
ROWS, DIM = 50, 4


@dataclass(frozen=True)
class Structure:
    """A model, what it is fed and how many columns it must become.

    inputs: shape and dtype of each placeholder.   sizes: the open dims of each request.   module: whether it is saved
    as TensorFlow 2 does.
    """

    make: Make
    columns: int
    inputs: Mapping[str, tuple[Any, str]]
    sizes: tuple[Mapping[str, int], ...]
    module: bool

    def requests(self) -> Iterator[dict[str, Array]]:
        """Random ids, for each set of sizes."""
        rng = np.random.default_rng(len(self.inputs))
        for sizes in self.sizes:
            yield {key: self._array(rng, key, sizes) for key in self.inputs}

    def _array(self, rng: np.random.Generator, key: str, sizes: Mapping[str, int]) -> Array:
        shape, dtype = self.inputs[key]
        dims = [sizes[d] if isinstance(d, str) else d for d in shape]
        if dtype == "float32":
            return rng.standard_normal(dims).astype(np.float32)
        if dtype == "string":
            words = np.array([b"", b"a", b"bb", b"word", b"\xff" * 70], object)
            return words[rng.integers(len(words), size=dims)]
        if key.startswith("length"):
            return rng.integers(0, sizes["T"] + 1, dims).astype(dtype)
        return rng.integers(0, ROWS, dims).astype(dtype)


STRUCTURES: dict[str, Structure] = {}
BATCHES = tuple({"B": b} for b in (5, 0, 1, 33))


def structure(
    columns: int,
    *,
    sizes: tuple[Mapping[str, int], ...] = BATCHES,
    module: bool = False,
    **inputs: tuple[Any, str],
) -> Callable[[Make], Make]:
    """Registers a model by the name of its function."""

    def register(make: Make) -> Make:
        STRUCTURES[make.__name__] = Structure(make, columns, inputs, sizes, module)
        return make

    return register


def table(tf: Any, name: str, rows: int = ROWS, dim: int = DIM) -> Any:
    """A variable of random rows."""
    seed = sum(name.encode())
    value = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    if tf.executing_eagerly() or tf.inside_function():
        return tf.Variable(value, name=name)
    return tf.compat.v1.get_variable(name, initializer=value)


def ids(*rest: Any, dtype: str = "int64") -> tuple[Any, str]:
    return ("B", *rest), dtype


# -- columns that end elsewhere ----------------------------------------------------------------------------------------
@structure(2, a=ids(), b=ids())
def fetched_themselves(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = {key: tf.nn.embedding_lookup(table(tf, key), x[key]) for key in x}
    return {**rows, "again": rows["a"]}


@structure(3, s=((("B", 1)), "string"), n=(("B", 1), "float32"), i=ids(1))
def fetched_and_joined(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    fc = tf.feature_column
    columns = [
        fc.embedding_column(fc.categorical_column_with_hash_bucket("s", ROWS), DIM),
        fc.embedding_column(fc.bucketized_column(fc.numeric_column("n"), [-1.0, 0.0, 1.0]), DIM, combiner="sum"),
        fc.embedding_column(fc.categorical_column_with_identity("i", ROWS), DIM, combiner="sqrtn"),
    ]
    each = {f"c{k}": tf.compat.v1.feature_column.input_layer(x, [c]) for k, c in enumerate(columns)}
    return {**each, "all": tf.concat(list(each.values()), 1), "some": tf.concat([each["c2"], each["c0"]], 1)}


def features(tf: Any, x: Mapping[str, Any], keys: str, dim: int = DIM, suffix: str = "") -> list[Any]:
    return [tf.nn.embedding_lookup(table(tf, key + suffix, dim=dim), x[key]) for key in keys]


@structure(4, a=ids(), b=ids(), c=ids(), d=ids(), x=(("B", 3), "float32"))
def dot_interaction(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    bottom = tf.nn.relu(tf.matmul(x["x"], table(tf, "bottom", 3)))
    stacked = tf.stack([bottom, *features(tf, x, "abcd")], axis=1)
    products = tf.matmul(stacked, stacked, transpose_b=True)
    rows, cols = np.tril_indices(5, -1)
    lower = tf.gather(tf.reshape(products, (-1, 25)), rows * 5 + cols, axis=1)
    return {"out": tf.concat([bottom, lower], 1), "stacked": stacked}


@structure(3, a=ids(1), b=ids(1), c=ids(1))
def dot_over_whole_triangle(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    stacked = tf.reshape(tf.concat([tf.reshape(f, (-1, DIM)) for f in features(tf, x, "abc")], 1), (-1, 3, DIM))
    products = tf.einsum("bfd,bgd->bfg", stacked, stacked)
    return {"out": tf.reshape(products, (-1, 9))}


@structure(8, a=ids(), b=ids(), c=ids(), d=ids())
def factorization_machine(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    stacked = tf.stack(features(tf, x, "abcd"), 1)
    square_of_sum = tf.square(tf.reduce_sum(stacked, 1))
    sum_of_squares = tf.reduce_sum(tf.square(stacked), 1)
    second = 0.5 * tf.reduce_sum(square_of_sum - sum_of_squares, 1, keepdims=True)
    wide = tf.add_n(features(tf, x, "abcd", 1, "_wide"))
    return {"out": tf.sigmoid(second + wide)}


@structure(5, s=((("B", 1)), "string"), n=(("B", 1), "float32"), i=ids(1), j=ids(3), sizes=({"B": 5}, {"B": 33}))
def linear(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    fc = tf.feature_column
    buckets = fc.bucketized_column(fc.numeric_column("n"), [-1.0, 0.0, 1.0])
    columns = [
        fc.categorical_column_with_hash_bucket("s", ROWS),
        buckets,
        fc.categorical_column_with_identity("i", ROWS),
        fc.categorical_column_with_identity("j", ROWS),
        fc.crossed_column(["s", buckets], 100),
        fc.numeric_column("n"),
    ]
    return {"out": tf.compat.v1.feature_column.linear_model(x, columns, units=1)}


@structure(6, **{f"f{k}": ids() for k in range(6)})
def wide_and_deep(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    wide = tf.math.accumulate_n([tf.nn.embedding_lookup(table(tf, f"{k}_w", dim=1), x[k]) for k in list(x)[:3]])
    deep = tf.concat([tf.nn.embedding_lookup(table(tf, k), x[k]) for k in list(x)[3:]], 1)
    return {"out": wide + tf.matmul(tf.nn.relu(deep), table(tf, "k", 3 * DIM, 1))}


@structure(3, a=ids(), b=ids(), c=ids())
def two_towers(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    a, b, c = features(tf, x, "abc")
    left, right = tf.concat([a, b], -1), tf.concat([b, c, a], -1)
    kernels = table(tf, "left", 2 * DIM, 3), table(tf, "right", 3 * DIM, 3)
    left, right = (tf.nn.l2_normalize(tf.matmul(t, k), 1) for t, k in zip((left, right), kernels, strict=True))
    return {"left": left, "right": right, "score": tf.reduce_sum(left * right, 1)}


@structure(4, a=ids(), b=ids())
def towers_of_the_same_fields(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    deep, shallow = features(tf, x, "ab"), features(tf, x, "ab", 2, "_shallow")
    return {"deep": tf.concat(deep, 1), "shallow": deep[0][:, :2] + shallow[0] * shallow[1]}


@structure(2, a=ids(), b=ids())
def cross_network(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    first = at = tf.concat(features(tf, x, "ab"), 1)
    for k in range(2):
        at = first * tf.matmul(at, table(tf, f"w{k}", 2 * DIM, 1)) + table(tf, f"b{k}", 1, 2 * DIM)[0] + at
    return {"out": at}


@structure(3, a=ids(), b=ids(), c=ids())
def bi_interaction_and_outer(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    a, b, c = features(tf, x, "abc")
    outer = tf.expand_dims(a, 2) * tf.expand_dims(b, 1)
    pairs = [tf.multiply(p, q) for p, q in ((a, b), (a, c), (b, c))]
    return {"outer": tf.reshape(outer, (-1, DIM * DIM)), "pairs": tf.add_n(pairs), "stack": tf.stack(pairs, 0)}


# -- user features once, for many candidates ---------------------------------------------------------------------------
CANDIDATES = tuple({"U": 1, "B": b} for b in (5, 0, 1, 33))


@structure(2, user=(("U",), "int64"), item=ids(), sizes=CANDIDATES)
def user_tiled(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    user, item = (tf.nn.embedding_lookup(table(tf, key), x[key]) for key in ("user", "item"))
    tiled = tf.tile(user, [tf.shape(item)[0], 1])
    joined = tf.concat([tiled, item], 1)
    return {"out": tf.matmul(joined, table(tf, "kernel", 2 * DIM, 2))}


@structure(2, user=((1,), "int64"), item=ids(), sizes=CANDIDATES)
def one_user_broadcast(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    user, item = (tf.nn.embedding_lookup(table(tf, key), x[key]) for key in ("user", "item"))
    return {"score": tf.reduce_sum(user * item, 1)}


# The user's ids are no field once they are tiled: that lookup stays in the dense network.
@structure(1, user=(("U",), "int64"), item=ids(), sizes=CANDIDATES)
def user_id_tiled(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    tiled = tf.tile(x["user"], tf.shape(x["item"]))
    user, item = tf.nn.embedding_lookup(table(tf, "user"), tiled), tf.nn.embedding_lookup(table(tf, "item"), x["item"])
    return {"out": tf.concat([user, item], 1)}


@structure(2, user=(("U",), "int64"), item=ids(), which=ids(), sizes=tuple({"U": 50, "B": b} for b in (5, 0, 1, 33)))
def users_gathered(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    user, item = (tf.nn.embedding_lookup(table(tf, key), x[key]) for key in ("user", "item"))
    return {"out": tf.concat([tf.gather(user, x["which"]), item], 1)}


@structure(2, user=ids(), item=ids(7))
def candidates_a_row(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    user, item = (tf.nn.embedding_lookup(table(tf, key), x[key]) for key in ("user", "item"))
    tiled = tf.tile(tf.expand_dims(user, 1), (1, 7, 1))
    joined = tf.reshape(tf.concat([tiled, item], -1), (-1, 2 * DIM))
    hidden = tf.nn.relu(tf.matmul(joined, table(tf, "kernel", 2 * DIM, 3)))
    return {
        "out": tf.reshape(tf.reduce_sum(hidden, 1), (-1, 7)),
        "dot": tf.reduce_sum(tf.expand_dims(user, 1) * item, 2),
    }


# -- several vectors a row ---------------------------------------------------------------------------------------------


@structure(1, a=ids(5))
def rows_of_a_matrix(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"out": tf.nn.embedding_lookup(table(tf, "a"), x["a"])}


LONG = tuple({"B": b, "T": t} for b, t in ((5, 6), (0, 4), (3, 0), (1, 1), (17, 3)))


@structure(4, a=((3,), "int64"), b=((3, 2), "int64"), s=((3, 1), "string"), sizes=({},))
def batch_of_a_fixed_size(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    fc = tf.feature_column
    hashed = fc.categorical_column_with_hash_bucket("s", ROWS)
    of_b = fc.categorical_column_with_identity("b", ROWS)
    columns = [fc.embedding_column(hashed, DIM), fc.embedding_column(of_b, 3, combiner="sum")]
    features = {key: x[key] for key in "bs"}
    rows = tf.nn.embedding_lookup(table(tf, "a"), x["a"]), tf.nn.embedding_lookup(table(tf, "b"), x["b"])
    return {"out": tf.concat([rows[0], tf.compat.v1.feature_column.input_layer(features, columns)], 1), "b": rows[1]}


@structure(1, a=ids("T"), sizes=LONG)
def rows_of_an_open_matrix(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"out": tf.nn.embedding_lookup(table(tf, "a"), x["a"])}


@structure(1, a=ids("T"), sizes=LONG)  # of no rows, the largest and the smallest are infinite
def extremes_of_an_open_matrix(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = tf.nn.embedding_lookup(table(tf, "a"), x["a"])
    return {"max": tf.reduce_max(rows, 1), "min": tf.reduce_min(rows, axis=[-2], keepdims=True)}


@structure(3, s=((("B", 1)), "string"), a=ids(1), f=((("B", 1)), "float32"))
def the_one_id_of_a_row(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    hashed = tf.strings.to_hash_bucket_fast(x["s"], ROWS)[:, 0]
    buckets = tf.raw_ops.Bucketize(input=x["f"], boundaries=[-1.0, 0.0, 1.0])[:, -1]
    inside = tf.logical_and(x["a"] >= 0, x["a"] < ROWS - 9)
    kept = tf.where(inside, x["a"], tf.constant(7, tf.int64))[:, 0]
    found = {"s": hashed, "f": buckets, "a": kept}
    return {"out": tf.concat([tf.nn.embedding_lookup(table(tf, key), each) for key, each in found.items()], 1)}


@structure(2, a=ids(2, 3), s=((("B", 4)), "string"))
def rows_of_higher_rank(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    hashed = tf.strings.to_hash_bucket_fast(x["s"], ROWS)
    return {
        "out": tf.nn.embedding_lookup(table(tf, "a"), x["a"]),
        "flat": tf.reshape(tf.nn.embedding_lookup(table(tf, "s"), hashed), (-1, 4 * DIM)),
    }


@structure(3, a=ids(5))  # the sum and the mean are poolings, the largest is taken of unpooled rows
def summed_behind(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = tf.nn.embedding_lookup(table(tf, "a"), x["a"])
    return {"sum": tf.reduce_sum(rows, 1), "mean": tf.reduce_mean(rows, 1), "max": tf.reduce_max(rows, 1)}


@structure(1, a=ids(5))
def masked_mean(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = tf.nn.embedding_lookup(table(tf, "a"), x["a"])
    mask = tf.expand_dims(tf.cast(tf.not_equal(x["a"], 0), tf.float32), 2)
    return {"out": tf.math.divide_no_nan(tf.reduce_sum(rows * mask, 1), tf.reduce_sum(mask, 1))}


def attention(tf: Any, query: Any, keys: Any, mask: Any) -> Any:
    """Deep interest: a small network scores every key for the query; the keys are summed by softmax of the scores."""
    queries = tf.tile(tf.expand_dims(query, 1), [1, tf.shape(keys)[1], 1])
    joined = tf.concat([queries, keys, queries - keys, queries * keys], -1)
    hidden = tf.sigmoid(tf.tensordot(joined, table(tf, "hidden", 4 * DIM, 3), 1) + table(tf, "bias", 1, 3)[0])
    scores = tf.squeeze(tf.tensordot(hidden, table(tf, "last", 3, 1), 1), -1)
    scores = tf.where(mask, scores / DIM**0.5, tf.ones_like(scores) * (-(2.0**32) + 1))
    return tf.squeeze(tf.matmul(tf.expand_dims(tf.nn.softmax(scores), 1), keys), 1)


@structure(2, item=ids(), history=ids(6))
def deep_interest(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    items = table(tf, "item")
    query, keys = tf.nn.embedding_lookup(items, x["item"]), tf.nn.embedding_lookup(items, x["history"])
    pooled = attention(tf, query, keys, tf.not_equal(x["history"], 0))
    return {"out": tf.concat([query, pooled], 1)}


@structure(2, item=ids(), history=ids("T"), lengths=ids(dtype="int32"), sizes=LONG)
def deep_interest_of_open_length(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    items = table(tf, "item")
    query, keys = tf.nn.embedding_lookup(items, x["item"]), tf.nn.embedding_lookup(items, x["history"])
    pooled = attention(tf, query, keys, tf.sequence_mask(x["lengths"], tf.shape(x["history"])[1]))
    return {"out": tf.concat([query, pooled], 1)}


@structure(2, history=ids(6), category=ids(6))
def self_attention(tf: Any, x: Mapping[str, Any]) -> Mapping[str, Any]:
    keys = tf.concat([tf.nn.embedding_lookup(table(tf, key), x[key]) for key in x], 2)
    scores = tf.nn.softmax(tf.matmul(keys, keys, transpose_b=True) / (2 * DIM) ** 0.5)
    return {"out": tf.matmul(scores, keys), "last": keys[:, -1, :], "first": keys[:, 0]}


for name, each in list(STRUCTURES.items()):
    if name in ("dot_interaction", "factorization_machine", "deep_interest", "user_tiled", "rows_of_an_open_matrix"):
        STRUCTURES[f"{name}_module"] = Structure(each.make, each.columns, each.inputs, each.sizes, True)


# -- checks ------------------------------------------------------------------------------------------------------------
class Model:
    """A SavedModel, TensorFlow's answers, and ours by target."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensorflow = TensorFlowModel(path)
        self.targets: dict[str, Executable] = {}

    def on(self, target: str) -> Executable:
        if target not in self.targets:
            self.targets[target] = self._compiled(target)
        return self.targets[target]

    def _compiled(self, target: str) -> Executable:
        if target != "gpu":
            return compiler.compile(self.path, target)
        program, weights, explanation, _ = compiler.lower(self.path)
        return Executable(program, weights, GpuBackend(interpret=True), explanation=explanation)


def built(path: Path, each: Structure) -> Path:
    """The structure as a TF1 graph with reference variables, or as a module with resource variables."""
    if each.module:
        return _module(path, each)

    def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = {
            key: tf.compat.v1.placeholder(dtype, [None if isinstance(d, str) else d for d in shape], key)
            for key, (shape, dtype) in each.inputs.items()
        }
        return x, dict(each.make(tf, x))

    return saved(path, build)


def _module(path: Path, each: Structure) -> Path:
    import tensorflow as tf

    specs = {
        key: tf.TensorSpec([None if isinstance(d, str) else d for d in shape], dtype, key)
        for key, (shape, dtype) in each.inputs.items()
    }
    module = tf.Module()
    kept: dict[str, Any] = {}

    class Kept:
        """TensorFlow, but a variable is made once."""

        def __getattr__(self, name: str) -> Any:
            return getattr(tf, name)

        def Variable(self, value: Any, name: str) -> Any:
            return kept[name]

        def inside_function(self) -> bool:
            return True

    class Maker(Kept):
        def Variable(self, value: Any, name: str) -> Any:
            return kept.setdefault(name, tf.Variable(value, name=name))

    each.make(Maker(), {k: tf.zeros([1 if d is None else d for d in s.shape], s.dtype) for k, s in specs.items()})
    module.kept = kept

    @tf.function
    def serve(**x: Any) -> Any:
        return each.make(Kept(), x)

    tf.saved_model.save(module, str(path), signatures=serve.get_concrete_function(**specs))
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Model]]:
    folder = tmp_path_factory.mktemp("structures")
    made: dict[str, Model] = {}

    def model(name: str) -> Model:
        if name not in made:
            made[name] = Model(built(folder / name, STRUCTURES[name]))
        return made[name]

    yield model
    for each in made.values():
        each.tensorflow.close()


@pytest.mark.parametrize("name", STRUCTURES)
def test_answers_are_tensorflows(models: Callable[[str], Model], name: str) -> None:
    model = models(name)
    for request in STRUCTURES[name].requests():
        expected = model.tensorflow.run(request)
        rows = max(len(x) for x in request.values())
        for target in TARGETS if rows < 20 else TARGETS[:2]:  # the interpreter is slow
            got = model.on(target)(request)
            assert got.keys() == expected.keys()
            for key in expected:
                assert (got[key].dtype, got[key].shape) == (expected[key].dtype, expected[key].shape), (target, key)
                np.testing.assert_allclose(got[key], expected[key], rtol=1e-5, atol=1e-5, err_msg=f"{target} {key}")


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_lookup_is_a_column(models: Callable[[str], Model], name: str) -> None:
    program = models(name).on("cpu").program
    assert len(program.columns) == STRUCTURES[name].columns
    tables = {each.name for each in program.tables}
    assert not tables & {name for name, _, _ in program.params}
