"""SavedModels made in a test, and compiled: a function builds a TF1 graph, saved with reference variables."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from colonnade import compiler
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.executable import Executable
from colonnade.testing.tensorflow import tensorflow

TARGETS = ("reference", "cpu", "gpu")

Build = Callable[[Any], tuple[dict[str, Any], dict[str, Any]]]
"""From the module `tensorflow` to inputs and outputs by name."""


def saved(path: Path, build: Build) -> Path:
    """The SavedModel of the graph that `build` makes."""
    tf = tensorflow()
    with warnings.catch_warnings(), tf.Graph().as_default():
        warnings.simplefilter("ignore")  # TensorFlow deprecates its feature columns
        tf.compat.v1.get_variable_scope().set_use_resource(False)
        tf.compat.v1.set_random_seed(7)
        inputs, outputs = build(tf)
        with tf.compat.v1.Session() as session:
            tables = tf.compat.v1.tables_initializer()
            session.run([tf.compat.v1.global_variables_initializer(), tables])
            tf.compat.v1.saved_model.simple_save(session, str(path), inputs, outputs, legacy_init_op=tables)
    return path


def counted(tf: Any) -> Any:
    """An initializer: row r holds r + 1."""

    def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        rows = tf.range(1.0, shape[0] + 1.0)
        return tf.tile(tf.reshape(rows, (-1, 1)), (1, shape[1]))

    return initial


def layer(tf: Any, features: dict[str, Any], *columns: Any) -> dict[str, Any]:
    """The one output: TensorFlow's input layer of columns."""
    return {"out": tf.compat.v1.feature_column.input_layer(features, list(columns))}


def compiled(
    path: Path, target: str, signature: str | None = None, *, id_policy: str = "error", threads: int = 1
) -> Executable:
    """The model for a target; the kernels of `gpu` are interpreted."""
    program, weights, explanation, _ = compiler.lower(path, signature)
    backend = GpuBackend(interpret=True) if target == "gpu" else compiler.backend(target)
    return Executable(program, weights, backend, id_policy=id_policy, threads=threads, explanation=explanation)
