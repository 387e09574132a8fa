"""Columns of strings that the host makes of inputs: lower case, white space, joins, patterns, parts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from colonnade import compiler
from colonnade.core import letters
from colonnade.errors import ColonnadeError, UnsupportedOps
from colonnade.ir.check_program import broken
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.oracle import TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled, saved

WORDS = ["Red", " red ", "GREEN\t", "", "b, lue!", "größe", "ÄB", "x\0Y", "red", "a" * 70 + "B", "[UNK]", "-"]


def texts(values: list[str]) -> np.ndarray[Any, Any]:
    made = np.empty((len(values), 1), object)
    made[:, 0] = [v.encode() for v in values]
    return made


def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    x, y = (tf.compat.v1.placeholder(tf.string, (None, 1), name=name) for name in "xy")
    n = tf.compat.v1.placeholder(tf.float32, (None, 1), name="n")
    table = tf.compat.v1.get_variable("t", (50, 3))
    clean = tf.strings.strip(tf.strings.regex_replace(tf.strings.lower(x), "[!,;]+", " "))
    keys = tf.lookup.KeyValueTensorInitializer(["red", "green", "b  lue"], tf.constant([1, 2, 3], tf.int64))
    known = tf.lookup.StaticHashTable(keys, 0).lookup(clean)

    def row(ids: Any) -> Any:
        return tf.nn.embedding_lookup(table, tf.reshape(ids, [-1]))

    def hashed(strings: Any) -> Any:
        return row(tf.strings.to_hash_bucket_fast(strings, 50))

    joined = tf.strings.join([x, "_", tf.strings.upper(y)], separator="/")
    fc = tf.feature_column
    column = fc.embedding_column(fc.categorical_column_with_hash_bucket("z", 40), 4, "sum")
    present = tf.compat.v1.feature_column.input_layer({"z": tf.strings.lower(y)}, [column])
    parts = tf.strings.substr(tf.strings.join(["ab", x]), 1, 3)
    return {"x": x, "y": y, "n": n}, {
        "known": row(known),
        "plain": hashed(x),
        "joined": hashed(joined),
        "parts": hashed(parts),
        "present": present,
        "number": n * 2.0,
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("strings") / "model", build)


def feed_of(rows: int, seed: int = 0) -> dict[str, Any]:
    r = np.random.default_rng(seed)
    x, y = ([WORDS[k] for k in r.integers(len(WORDS), size=rows)] for _ in range(2))
    return {"x": texts(x), "y": texts(y), "n": r.normal(size=(rows, 1)).astype(np.float32)}


def test_answers(path: Path) -> None:
    with TensorFlowModel(path) as model:
        for target in TARGETS:
            executable = compiled(path, target)
            assert len(executable.program.columns) == 5
            for rows in (1, 17) if target == "gpu" else (1, 60, 0):
                feed = feed_of(rows, rows)
                want, got = model.run(feed), executable(feed)
                for name, value in want.items():
                    assert got[name].tobytes() == value.tobytes(), (target, name)


def test_every_form_of_a_request(path: Path) -> None:
    executable = compiled(path, "cpu")
    feed = feed_of(30)
    want = executable(feed)
    forms: list[Any] = [
        {k: v.tolist() for k, v in feed.items()},
        {k: pa.array(v[:, 0]) for k, v in feed.items()},
        pa.record_batch([pa.array(v[:, 0]) for v in feed.values()], list(feed)),
    ]
    for form in forms:
        got = executable(form)
        assert all(np.array_equal(np.asarray(got[k]), want[k]) for k in want)
    with pytest.raises(ColonnadeError, match="does not fit"):
        executable({**feed, "x": feed["x"][:3]})
    with pytest.raises(ColonnadeError, match="does not fit"):
        executable({**feed, "x": np.zeros((30, 1), np.float32)})


def test_the_text_says_what_is_made(path: Path, tmp_path: Path) -> None:
    executable = compiled(path, "cpu")
    text = print_program(executable.program)
    assert " by string_strip(regex_replace[" in text and not list(broken(executable.program))
    assert parse_program(text, executable.weights.consts) == executable.program
    assert {i.name for i in executable.program.signature} == {"x", "y", "n"}
    executable.save(tmp_path / "artifact")
    feed = feed_of(9)
    assert np.array_equal(compiler.load(tmp_path / "artifact")(feed)["known"], executable(feed)["known"])


@pytest.mark.parametrize("pattern", ["(a|b)", "a*", "[^a]", ".", r"\d", "a{2}", "[a--c]", "ä"])
def test_patterns_that_may_mean_something_else(tmp_path: Path, pattern: str) -> None:
    def one(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = tf.compat.v1.placeholder(tf.string, (None,), name="x")
        ids = tf.strings.to_hash_bucket_fast(tf.strings.regex_replace(x, pattern, ""), 9)
        return {"x": x}, {"out": tf.nn.embedding_lookup(tf.compat.v1.get_variable("t", (9, 3)), ids)}

    with pytest.raises(UnsupportedOps):
        compiled(saved(tmp_path / "model", one), "cpu")


SIGMAS = [
    "ΑΣ",
    "ΑΣ Β",
    "Σ",
    "ΑΣ.",
    "ΑΣΑ",
    "İI",
    "ßA",
    "ŉ",
    "ﬁx",
    "Ǆ",
    "ᾳ",
    "ΑΣ\u0301",
    "A'ΣB",
    "ΑΣ\u00adΑ",
    "\u2c2fΣ",
    "ΑΣ\u2c5f",
]


@pytest.mark.parametrize("case", ["lower", "upper"])
def test_letters_of_every_code_point(case: str) -> None:
    tf = tensorflow()
    texts = [chr(c).encode() for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    texts += [text.encode() for text in SIGMAS]
    some = (0x41, 0x80, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xED, 0xA0, 0xF0, 0xF4, 0xF5, 0xFF, 0x90, 0)
    texts += [bytes(raw) for raw in itertools.product(some, repeat=3)]
    want = getattr(tf.strings, case)(tf.constant(texts), encoding="utf-8").numpy().tolist()
    wrong = [text for text, made in zip(texts, want, strict=True) if getattr(letters, case)(text) != made]
    assert not wrong
