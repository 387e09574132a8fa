"""Every kind of feature column over features of serialized Examples, sparse ones of any length among them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.testing.oracle import TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled

WORDS = [b"a", b"b", b"", b"c" * 40, b"nothing", b"\xff"]
NUMBERS = [0, 3, 7, -1, -5, 40, 2**62]


def columns(tf: Any) -> list[Any]:
    fc = tf.feature_column
    tags = fc.categorical_column_with_vocabulary_list("tags", ["a", "b", "c" * 40], num_oov_buckets=3)
    known = fc.categorical_column_with_vocabulary_list("known", ["a", "b"])
    numbers = fc.categorical_column_with_vocabulary_list("numbers", [0, 3, 7], default_value=2)
    ids = fc.categorical_column_with_identity("ids", 10, default_value=9)
    pair = fc.bucketized_column(fc.numeric_column("pair", (2,)), [0.0, 10.0])
    one = fc.bucketized_column(fc.numeric_column("one"), [0.0, 10.0])
    return [
        fc.embedding_column(tags, 4, "sum"),
        fc.indicator_column(tags),
        fc.embedding_column(known, 3, "mean"),
        fc.embedding_column(numbers, 3, "sqrtn"),
        fc.embedding_column(ids, 2, "mean"),
        fc.indicator_column(ids),
        fc.embedding_column(pair, 3, "mean"),
        fc.indicator_column(pair),
        one,
        fc.embedding_column(fc.crossed_column([one, pair_free(fc)], 30), 2),
    ]


def pair_free(fc: Any) -> Any:
    """Buckets of another number, to be crossed."""
    return fc.bucketized_column(fc.numeric_column("other"), [-1.0, 1.0])


def build(path: Path) -> Path:
    tf = tensorflow()
    v1 = tf.compat.v1
    with v1.Graph().as_default():
        serialized = v1.placeholder(tf.string, [None], name="rows")
        made = columns(tf)
        features = v1.io.parse_example(serialized, tf.feature_column.make_parse_example_spec(made))
        layer = v1.feature_column.input_layer(features, made)
        tables = v1.tables_initializer()
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), tables])
            v1.saved_model.simple_save(session, str(path), {"rows": serialized}, {"out": layer}, tables)
    return path


def examples(rows: int, seed: int) -> Any:
    tf = tensorflow()
    rng = np.random.default_rng(seed)

    def texts() -> Any:
        chosen = [WORDS[k] for k in rng.integers(0, len(WORDS), rng.integers(0, 4))]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=chosen))

    def integers() -> Any:
        chosen = [NUMBERS[k] for k in rng.integers(0, len(NUMBERS), rng.integers(0, 4))]
        return tf.train.Feature(int64_list=tf.train.Int64List(value=chosen))

    def floats(count: int) -> Any:
        values = rng.choice([-1.0, 0.0, 5.0, 10.0, np.nan, np.inf], count)
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    made = np.empty(rows, object)
    for row in range(rows):
        found = {"one": floats(1), "pair": floats(2), "other": floats(1), "tags": texts(), "known": texts()}
        found |= {"numbers": integers(), "ids": integers()}
        if row % 5 == 4:
            del found["tags"], found["ids"]
        made[row] = tf.train.Example(features=tf.train.Features(feature=found)).SerializeToString()
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("examples") / "model")


@pytest.fixture(scope="module")
def oracle(path: Path) -> Iterator[TensorFlowModel]:
    with TensorFlowModel(path) as model:
        yield model


@pytest.mark.parametrize("target", TARGETS)
def test_answers_are_tensorflows(path: Path, oracle: TensorFlowModel, target: str) -> None:
    executable = compiled(path, target)
    assert len(executable.program.columns) == 10 and not executable.program.dense
    for rows in (11, 1) if target == "gpu" else (40, 1):
        feed = {"rows": examples(rows, rows)}
        expected = oracle.run(feed)["out"]
        got = executable(feed)["out"]
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert executable({"rows": np.empty(0, object)})["out"].shape == (0, expected.shape[1])
