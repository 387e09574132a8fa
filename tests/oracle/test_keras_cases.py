"""Keras preprocessing on what trips up systems like this one: special tokens, vocabulary files, odd floats."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.errors import IdRangeError, ImportFailure, ShapeError
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled

Array = np.ndarray[Any, Any]
Ids = Callable[[Any, Any], Any]
NAN, INF = float("nan"), float("inf")


def numbered(keras: Any, ids: Any, rows: int) -> Any:
    """The ids as vectors of one number: row r of the table holds r."""
    table = np.arange(rows, dtype=np.float32).reshape(-1, 1)
    return keras.layers.Flatten()(keras.layers.Embedding(rows, 1, embeddings_initializer=lambda s, dtype: table)(ids))


def exported(path: Path, dtype: str, outputs: Mapping[str, Ids]) -> Path:
    """The export of a model whose outputs are the ids that layers make of one input, 20 ids at most."""
    keras = tensorflow().keras
    x = keras.Input((1,), dtype=dtype, name="x")
    model = keras.Model({"x": x}, {name: numbered(keras, ids(keras, x), 20) for name, ids in outputs.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.export(str(path), verbose=False)
    return path


def answers(path: Path, values: Array) -> dict[str, list[int]]:
    """TensorFlow's ids by output, which those of every target equal."""
    feed = {"x": values.reshape(-1, 1)}
    with TensorFlowModel(path) as oracle:
        expected = oracle.run(feed)
    for target in TARGETS:
        executable = compiled(path, target)
        for rows in (slice(None), slice(0), slice(1)):
            got = executable({"x": feed["x"][rows]})
            assert {k: v.tolist() for k, v in got.items()} == {k: v[rows].tolist() for k, v in expected.items()}, target
        assert len(executable.program.columns) == len(expected) and not executable.program.dense
    return {name: [int(v) for v in value.reshape(-1)] for name, value in expected.items()}


def texts(*words: str) -> Array:
    return np.array([w.encode() for w in words], object)


# -- vocabularies ------------------------------------------------------------------------------------------------------
def looked_up(vocabulary: Any, **options: Any) -> Ids:
    return lambda keras, x: keras.layers.StringLookup(vocabulary=vocabulary, **options)(x)


def test_words_are_compared_as_bytes_and_special_tokens_are_words(tmp_path: Path) -> None:
    layers = {
        "plain": looked_up(["a", "b", "é"]),
        "masked": looked_up(["a", "b"], mask_token="", num_oov_indices=2),
        "own": looked_up(["a", "b"], oov_token="zz", mask_token="é"),
        "inside": looked_up(["", "[UNK]", "b"], mask_token="", oov_token="[UNK]"),
    }
    path = exported(tmp_path / "model", "string", layers)
    got = answers(path, texts("a", "é", "e\u0301", "", "[UNK]", "zz", "q", "r", "s", "a\0", " a", "A", "É"))
    assert got["plain"] == [1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert [got["masked"][k] for k in (3, 0, 6, 7, 8)] == [0, 3, 2, 2, 2]
    assert set(got["masked"]) <= {0, 1, 2, 3} and got["own"][1] == 0


CONTENTS = {
    "newline": b"a\nb\n\xc3\xa9\n",
    "open": b"a\nb\n\xc3\xa9",
    "windows": b"a\r\nb\r\n\xc3\xa9\r\n",
    "windows_open": b"a\r\nb\r\n\xc3\xa9",
    "spaces": b" a\nb \n\t\n\xc3\xa9\n",
}


def test_a_vocabulary_file_is_read_line_by_line(tmp_path: Path) -> None:
    layers = {}
    for name, content in CONTENTS.items():
        file = tmp_path / f"{name}.txt"
        file.write_bytes(content)
        layers[name] = looked_up(str(file))
    got = answers(exported(tmp_path / "model", "string", layers), texts("a", "b", "é", "", "b\r", "a\n", " a", "\t"))
    assert got["newline"] == got["open"] == [1, 2, 3, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("content", [b"a\n\nb\n\xc3\xa9\n", b"a\nb\n\xc3\xa9\n\n", b"a\r\n\r\nb\r\n"])
def test_a_vocabulary_file_with_an_empty_line_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(CONTENTS["newline"])
    path = exported(tmp_path / "model", "string", {"out": looked_up(str(file))})
    (path / "assets" / "words.txt").write_bytes(content)
    with pytest.raises(OracleError, match="empty line"):
        TensorFlowModel(path)
    with pytest.raises(ImportFailure, match="empty lines"):
        compiled(path, "cpu")


@pytest.mark.parametrize("content", [b"a\nb\na\n", b"a\na\nb\n", b"a\r\nb\r\na\r\n"])
def test_a_vocabulary_file_with_a_word_twice_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ValueError, match="repeated term"):
        tensorflow().keras.layers.StringLookup(vocabulary=["a", "b", "a"])
    file = tmp_path / "words.txt"
    file.write_bytes(CONTENTS["newline"])
    path = exported(tmp_path / "model", "string", {"out": looked_up(str(file))})
    (path / "assets" / "words.txt").write_bytes(content)
    with pytest.raises(OracleError, match="different value for same key"):
        TensorFlowModel(path)
    with pytest.raises(ImportFailure, match="keys with two values"):
        compiled(path, "cpu")


def test_a_check_of_unknown_words_is_not_dropped(tmp_path: Path) -> None:
    """Without a place for unknown words Keras raises: here such a word is an id outside the table."""
    path = exported(tmp_path / "model", "string", {"none": looked_up(["a", "b"], num_oov_indices=0)})
    with TensorFlowModel(path) as oracle, pytest.raises(OracleError):
        oracle.run({"x": texts("b", "zz").reshape(-1, 1)})
    for target in TARGETS:
        executable = compiled(path, target)
        assert executable({"x": texts("b", "a").reshape(-1, 1)})["none"].tolist() == [[1.0], [0.0]]
        with pytest.raises(IdRangeError):
            executable({"x": texts("b", "zz").reshape(-1, 1)})


# -- buckets -----------------------------------------------------------------------------------------------------------
ODD = np.array([-1, 0, -0.0, 10, NAN, INF, -INF, 9.999999, 100, 1e-45, -1e-45, 3e38], np.float32)


def cut(boundaries: list[float]) -> Ids:
    return lambda keras, x: keras.layers.Discretization(boundaries)(x)


def test_buckets_of_odd_floats(tmp_path: Path) -> None:
    layers = {"three": cut([0.0, 10.0, 100.0]), "twice": cut([0.0, 0.0, 10.0]), "one": cut([-0.0])}
    got = answers(exported(tmp_path / "model", "float32", layers), ODD)
    assert got["three"][:7] == [0, 1, 1, 2, 3, 3, 0]


def test_boundaries_that_were_learnt_of_few_values(tmp_path: Path) -> None:
    def learnt(values: list[float], bins: int) -> Ids:
        def ids(keras: Any, x: Any) -> Any:
            layer = keras.layers.Discretization(num_bins=bins)
            layer.adapt(np.array(values, np.float32))
            return layer(x)

        return ids

    layers = {"two": learnt([1, 1, 2, 2], 8), "same": learnt([5] * 9, 4), "many": learnt(list(range(100)), 5)}
    answers(exported(tmp_path / "model", "float32", layers), np.concatenate([ODD, np.float32([1, 2, 5, 50, 98])]))


def test_unsorted_boundaries_are_refused_at_compile(tmp_path: Path) -> None:
    path = exported(tmp_path / "model", "float32", {"down": cut([10.0, 0.0])})
    with TensorFlowModel(path) as oracle, pytest.raises(OracleError, match="sorted"):
        oracle.run({"x": ODD.reshape(-1, 1)})
    with pytest.raises(ShapeError, match="nondecreasing float32 boundaries"):
        compiled(path, "cpu")


@pytest.mark.parametrize("boundaries", [[10.0, 0.0], [0.0, 0.0, 10.0], []])
def test_a_feature_column_takes_no_such_boundaries(boundaries: list[float]) -> None:
    fc = tensorflow().feature_column
    with warnings.catch_warnings(), pytest.raises(ValueError, match="boundaries"):
        warnings.simplefilter("ignore")
        fc.bucketized_column(fc.numeric_column("x"), boundaries)
