"""Outputs that are strings: integers that a table or a list of constants calls something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade
from colonnade import compiler
from colonnade.errors import ColonnadeError
from colonnade.executable import Executable
from colonnade.ir.text import parse_program, print_program
from colonnade.testing.oracle import OracleError, TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.tf_models import TARGETS, compiled

NAMES = ["", "a", "größe", "[UNK]", "b\0c"]


def labelled(tf: Any) -> Any:
    class Model(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rows = tf.Variable(tf.random.stateless_normal((9, 5), (1, 2)))
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(tf.constant([7, -3, 0, 2**40], tf.int64), NAMES[:4]), "none"
            )

        @tf.function(input_signature=[tf.TensorSpec((None,), tf.int64, name="x")])
        def serve(self, x: Any) -> Any:
            scores = tf.gather(self.rows, tf.math.floormod(x, tf.constant(9, tf.int64)))
            best = tf.math.top_k(scores, 3)
            return {
                "scores": best.values,
                "best": tf.gather(tf.constant(NAMES), best.indices),
                "first": tf.gather(tf.constant(NAMES), tf.argmax(scores, 1)),
                "known": tf.expand_dims(self.table.lookup(x), 1),
            }

    return Model()


def saved(path: Path, make: Callable[[Any], Any]) -> Path:
    made = make(tensorflow())
    tensorflow().saved_model.save(made, str(path), signatures=made.serve)
    return path


def check(path: Path, executables: Mapping[str, Executable], feed: Mapping[str, Any]) -> None:
    with TensorFlowModel(path) as model:
        want = model.run(dict(feed))
    for target, executable in executables.items():
        got = executable(feed)
        for name, value in ((name, want[name]) for name in got):
            if value.dtype == object:
                assert got[name].tolist() == value.tolist() and got[name].shape == value.shape, (target, name)
            else:
                np.testing.assert_allclose(got[name], value, rtol=1e-6, err_msg=target)


def test_labels(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", labelled)
    executables = {t: compiled(path, t) for t in TARGETS}
    for x in ([7, -3, 0, 2**40, 1, -1, 2**62], [], [5]):
        check(path, executables, {"x": np.array(x, np.int64)})


def test_a_program_with_labels_is_kept(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", labelled)
    executable = colonnade.compile(path, outputs=["best", "known"])
    text = print_program(executable.program)
    assert parse_program(text, executable.weights.consts) == executable.program and " = label[keys=" in text
    executable.save(tmp_path / "artifact")
    check(path, {"loaded": compiler.load(tmp_path / "artifact")}, {"x": np.array([7, 3, -3])})


def test_keras_labels(tmp_path: Path) -> None:
    keras = tensorflow().keras
    x = keras.Input((4,), name="x")
    ids = keras.ops.cast(keras.ops.top_k(keras.layers.Dense(6)(x), 2)[1], "int64")
    lookup = keras.layers.StringLookup(vocabulary=["red", "green", "blue"], invert=True, num_oov_indices=2)
    path = tmp_path / "model"
    keras.Model({"x": x}, {"out": lookup(ids)}).export(str(path), verbose=False)
    feed = {"x": np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)}
    check(path, {t: compiled(path, t) for t in TARGETS}, feed)


def test_a_label_that_there_is_not(tmp_path: Path) -> None:
    def make(tf: Any) -> Any:
        class Model(tf.Module):  # type: ignore[misc]
            @tf.function(input_signature=[tf.TensorSpec((None,), tf.int64, name="x")])
            def serve(self, x: Any) -> Any:
                return {"out": tf.gather(tf.constant(NAMES), x)}

        return Model()

    path = saved(tmp_path / "model", make)
    for target in TARGETS:
        executable = compiled(path, target)
        assert executable({"x": np.array([4, 0])})["out"].tolist() == [b"b\0c", b""]
        for wrong in (5, -1):
            with pytest.raises(ColonnadeError, match="text that there is not"):
                executable({"x": np.array([0, wrong])})
    with TensorFlowModel(path) as model, pytest.raises(OracleError):
        model.run({"x": np.array([5])})
