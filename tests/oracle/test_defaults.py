"""Inputs made by `placeholder_with_default`: a request may leave them out, and then gets TensorFlow's answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from colonnade import compiler
from colonnade.errors import FeedError
from colonnade.ir.text import consts_of, parse_program, print_program
from colonnade.testing.oracle import TensorFlowModel
from tests.oracle.tf_models import counted, saved

TARGETS = ("reference", "cpu")
WORDS = [b"a", b"", b"c\0"]


def build(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    v1 = tf.compat.v1
    x = v1.placeholder(tf.int64, [None, 1], "x")
    scale = v1.placeholder_with_default(tf.constant(2.5), [], "scale")
    shift = v1.placeholder_with_default(tf.constant([[1.0, -2.0, 3.0]]), [None, 3], "shift")
    id_ = v1.placeholder_with_default(tf.constant([[3]], tf.int64), [None, 1], "id")
    word = v1.placeholder_with_default(tf.constant(WORDS), [3], "word")
    free = v1.placeholder_with_default(tf.constant(0.5) + 1.0, [], "free")
    table = v1.get_variable("t", (5, 3), initializer=counted(tf))
    rows = tf.gather(table, tf.squeeze(x % 5, [1])) + tf.gather(table, tf.squeeze(id_ % 5, [1]))
    inputs = {"x": x, "scale": scale, "shift": shift, "id": id_, "word": word, "free": free}
    return inputs, {"y": rows * scale + shift, "w": tf.identity(word), "f": free * 1.0}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield saved(tmp_path_factory.mktemp("defaults") / "model", build)


FEED: dict[str, Any] = {
    "x": np.array([[7]]),
    "scale": np.float32(-1),
    "shift": np.ones((1, 3), np.float32),
    "id": np.array([[1]]),
    "word": np.array([b"x", b"y", b"z"], object),
    "free": np.float32(9),
}


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_request_leaves_out_is_its_default(model: Path, target: str, tmp_path: Path) -> None:
    made = compiler.compile(model, target)
    made.save(tmp_path / "a")
    executables = (made, compiler.load(tmp_path / "a", target))
    with TensorFlowModel(model) as oracle:
        for left_out in ((), ("scale",), ("shift", "word"), ("id",), ("scale", "shift", "id", "word")):
            feed = {key: value for key, value in FEED.items() if key not in left_out}
            want = oracle.run({key: np.asarray(value) for key, value in feed.items()})
            for executable in executables:
                got = executable(feed)
                for key, value in want.items():
                    np.testing.assert_array_equal(got[key], value, key)


def test_a_default_is_of_its_own_number_of_rows(model: Path) -> None:
    executable = compiler.compile(model, "reference")
    feed = {key: value for key, value in FEED.items() if key not in ("shift", "id")}
    with pytest.raises(FeedError, match=r"2 rows|1 rows"):
        executable({**feed, "x": np.array([[7], [1]]), "id": np.array([[1], [1]])})


def test_what_has_no_constant_default_must_be_fed(model: Path) -> None:
    executable = compiler.compile(model, "reference")
    with pytest.raises(FeedError) as caught:
        executable({"scale": 1.0})
    assert set(caught.value.got.splitlines()) == {"x: missing", "free: missing"}
    with pytest.raises(FeedError) as caught:
        executable(pa.RecordBatch.from_arrays([pa.array([1])], names=["x"]))
    assert caught.value.got.splitlines() == ["free: missing"]


def test_defaults_are_written_and_read(model: Path) -> None:
    program = compiler.compile(model, "reference").program
    text = print_program(program)
    assert sum(" default " in line for line in text.splitlines()) == 4
    assert parse_program(text, consts_of(program)) == program
