"""Models that take serialized Examples: compiled, they answer as TensorFlow, and refuse what it refuses."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade
from colonnade.errors import ColonnadeError, FeedError, UnsupportedOps
from colonnade.executable import Executable
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.unit.ops.graph import examples

TARGETS = ("reference", "cpu")


def column(rows: list[bytes]) -> Any:
    made = np.empty(len(rows), object)
    made[:] = rows
    return made


def build(path: Path) -> None:
    """Columns over sparse features of any length, a vocabulary, buckets, numbers with and without a default."""
    tf = tensorflow()
    v1, fc = tf.compat.v1, tf.feature_column
    with v1.Graph().as_default():
        age = fc.numeric_column("age")
        columns = [
            fc.embedding_column(fc.categorical_column_with_hash_bucket("tags", 50), 4, combiner="mean"),
            fc.embedding_column(fc.categorical_column_with_identity("ids", 20), 3, combiner="sum"),
            fc.embedding_column(
                fc.categorical_column_with_vocabulary_list("city", ["a", "b", "c"], num_oov_buckets=2), 2, "sqrtn"
            ),
            fc.numeric_column("num", shape=(2,), default_value=[0.5, 1.0]),
            fc.embedding_column(fc.bucketized_column(age, [0.0, 10.0, 20.0]), 5),
        ]
        serialized = v1.placeholder(tf.string, [None], name="rows")
        features = v1.io.parse_example(serialized, fc.make_parse_example_spec(columns))
        layer = v1.feature_column.input_layer(features, columns)
        weights = v1.get_variable("weights", [layer.shape[1], 3])
        outputs = {"layer": layer, "y": tf.nn.relu(tf.matmul(layer, weights))}
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            v1.saved_model.simple_save(session, str(path), {"rows": serialized}, outputs, v1.tables_initializer())


def build_v1(path: Path) -> None:
    """The first version of the op: an operand a key; a vector of two sparse features made dense, and labels as text."""
    tf = tensorflow()
    v1, raw = tf.compat.v1, tf.raw_ops
    with v1.Graph().as_default():
        serialized = v1.placeholder(tf.string, [None], name="rows")
        found = raw.ParseExample(
            serialized=serialized,
            names=[],
            sparse_keys=["id", "unused"],
            dense_keys=["x"],
            dense_defaults=[[[0.5, -1.0]]],
            sparse_types=[tf.int64, tf.string],
            dense_shapes=[[1, 2]],
        )
        shape = tf.stack([found.sparse_shapes[0][0], 2])
        ids = raw.SparseToDense(
            sparse_indices=found.sparse_indices[0],
            output_shape=shape,
            sparse_values=found.sparse_values[0],
            default_value=tf.constant(3, tf.int64),
        )
        table = v1.get_variable("table", [7, 4])
        rows = tf.gather(table, ids[:, 0])
        best = tf.argmax(tf.concat([rows, tf.reshape(found.dense_values[0], [-1, 2])], 1), 1)
        outputs = {"ids": ids, "best": best, "label": tf.strings.as_string(best), "x": found.dense_values[0]}
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, str(path), {"rows": serialized}, outputs)


def build_keras(path: Path) -> None:
    """A Keras 3 model behind a signature that parses: layers of one id a row."""
    tf = tensorflow()
    keras = tf.keras
    inputs = {name: keras.Input((1,), dtype=t, name=name) for name, t in (("city", "string"), ("user", "int64"))}
    inputs["price"] = keras.Input((1,), dtype="float32", name="price")
    city = keras.layers.StringLookup(vocabulary=["a", "b", "c"], num_oov_indices=1)(inputs["city"])
    user = keras.layers.Hashing(50)(inputs["user"])
    embedded = [
        keras.layers.Flatten()(keras.layers.Embedding(rows, dim)(ids))
        for ids, rows, dim in ((city, 4, 3), (user, 50, 4))
    ]
    joined = keras.layers.Concatenate()([*embedded, inputs["price"]])
    model = keras.Model(inputs, keras.layers.Dense(2, activation="sigmoid")(joined))
    spec = {
        "city": tf.io.FixedLenFeature([1], tf.string, default_value=""),
        "user": tf.io.FixedLenFeature([1], tf.int64),
        "price": tf.io.FixedLenFeature([1], tf.float32, default_value=0.0),
    }
    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec([None], tf.string, name="rows")]
    archive.add_endpoint("serve", lambda rows: {"y": model(tf.io.parse_example(rows, spec))}, signature)
    archive.write_out(str(path), verbose=False)


class Model:
    """A model, TensorFlow's and ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensorflow = TensorFlowModel(path, optimize=False)
        self.ours: list[Executable] = [colonnade.compile(path, target) for target in TARGETS]

    def check(self, rows: list[bytes]) -> bool:
        """Whether all answered, equally; False where all refused."""
        try:
            want = self.tensorflow.run({"rows": column(rows)})
        except OracleError:
            for executable in self.ours:
                with pytest.raises(ColonnadeError):
                    executable({"rows": column(rows)})
            return False
        for executable in self.ours:
            got = executable({"rows": rows})
            assert got.keys() == want.keys()
            for key, value in want.items():
                assert got[key].shape == value.shape and got[key].dtype == value.dtype, key
                if value.dtype.kind == "f":
                    np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-6)
                else:
                    assert got[key].tolist() == value.tolist()
        return True


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("examples") / "columns"
    build(path)
    return Model(path)


@pytest.fixture(scope="module")
def first_version(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("examples") / "v1"
    build_v1(path)
    return Model(path)


def test_a_keras_model_that_parses(tmp_path: Path) -> None:
    build_keras(tmp_path / "keras")
    model = Model(tmp_path / "keras")
    assert [c.name for c in model.ours[0].program.columns] == ["city", "user"]
    for seed in range(10):
        r = random.Random(seed)
        rows = []
        for _ in range(r.choice([0, 1, 7, 20])):
            user = examples.entry("user", examples.listed("int64", [r.randrange(-5, 10**6)]))
            city = examples.entry("city", examples.listed("string", [r.choice([b"a", b"c", b"d", b""])]))
            rows.append(examples.example(user, *([city] if r.random() < 0.7 else [])))
        assert model.check(rows)
    assert not model.check([b""])


def _entry(r: random.Random, key: str) -> bytes:
    dtype, num = {
        "tags": ("string", r.randint(0, 12)),
        "ids": ("int64", r.randint(0, 4)),
        "city": ("string", r.randint(0, 3)),
        "num": ("float32", 2),
        "age": ("float32", 1),
    }[key]
    pools: dict[str, Any] = {"ids": range(-1, 20), "city": (b"a", b"b", b"c", b"d", b"", b"B")}
    pool = pools.get(key, (b"", b"x", b"yy", b"zzz") if dtype == "string" else (-3.5, 0.0, 10.0, 19.5, 1e9))
    return examples.entry(key, examples.listed(dtype, [r.choice(pool) for _ in range(num)], r.random() < 0.8))


def test_columns_over_sparse_features(columns: Model) -> None:
    program = columns.ours[0].program
    assert sorted(c.name for c in program.columns) == ["age", "city", "ids", "tags"]
    assert {i.name for i in program.inputs if i.offsets} == {"city", "ids", "tags"}
    assert [i.name for i in program.signature] == ["rows"]
    for seed in range(40):
        r = random.Random(seed)
        rows = []
        for _ in range(r.choice([0, 1, 2, 9, 40])):
            keys = [k for k in ("tags", "ids", "city", "num") if r.random() < 0.7]
            rows.append(examples.example(*(_entry(r, k) for k in r.sample([*keys, "age"], len(keys) + 1))))
        assert columns.check(rows)


def test_refusals_are_tensorflows(columns: Model) -> None:
    age = examples.entry("age", examples.listed("float32", [1.0]))
    good = examples.example(age)
    assert columns.check([good])
    for bad in (
        b"\xff",
        b"",  # no age, which is required
        examples.example(age, examples.entry("ids", examples.listed("string", [b"3"]))),
        examples.example(age, examples.entry("ids", examples.listed("int64", [20]))),
        examples.example(age, examples.entry("num", examples.listed("float32", [1.0]))),
    ):
        assert not columns.check([good, bad])


def test_the_first_version_of_the_op(first_version: Model) -> None:
    for seed in range(30):
        r = random.Random(seed)
        rows = []
        for _ in range(r.choice([0, 1, 5])):
            ids = examples.entry("id", examples.listed("int64", [r.randrange(7) for _ in range(r.randint(0, 2))]))
            x = examples.entry("x", examples.listed("float32", [r.uniform(-3, 3), r.choice([0.0, float("nan")])]))
            rows.append(examples.example(*(e for e in (ids, x) if r.random() < 0.8)))
        assert first_version.check(rows)
    three = examples.example(examples.entry("id", examples.listed("int64", [1, 2, 3])))
    wrong = examples.example(examples.entry("unused", examples.listed("int64", [1])))
    assert not first_version.check([b"", three])
    assert not first_version.check([wrong])


def test_an_artifact_decodes(columns: Model, tmp_path: Path) -> None:
    columns.ours[1].save(tmp_path / "artifact")
    loaded = colonnade.load(tmp_path / "artifact")
    rows = [examples.example(_entry(random.Random(k), "age"), _entry(random.Random(k), "tags")) for k in range(5)]
    assert np.array_equal(loaded({"rows": rows})["y"], columns.ours[1]({"rows": rows})["y"])
    with pytest.raises(FeedError, match="Example 0, feature 'age': it is required but absent"):
        loaded({"rows": [b""]})


def test_what_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    tf = tensorflow()
    v1 = tf.compat.v1
    with v1.Graph().as_default():
        serialized = v1.placeholder(tf.string, [None])
        found = v1.io.parse_example(serialized, {"n": tf.io.VarLenFeature(tf.int64)})
        with v1.Session() as session:
            outputs = {"places": found["n"].indices, "values": found["n"].values}
            v1.saved_model.simple_save(session, str(tmp_path / "model"), {"rows": serialized}, outputs)
    with pytest.raises(UnsupportedOps, match="parse_example"):
        colonnade.compile(tmp_path / "model", "reference")
    values = colonnade.compile(tmp_path / "model", "reference", outputs=["values"])
    rows = [examples.example(examples.entry("n", examples.listed("int64", [5, 6]))), b""]
    assert values({"rows": rows})["values"].tolist() == [5, 6]
