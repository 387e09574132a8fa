"""Models of cells of one style, written by TensorFlow: an output a cell."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.testing.kinds.cell import Array, Cell, Given
from colonnade.testing.kinds.table import KERAS
from colonnade.testing.tensorflow import tensorflow


def names_of(cell: Cell) -> dict[str, Given]:
    """The inputs of a cell by their names in a model of several cells."""
    return {f"{output_of(cell)}__{i.name}": i for i in cell.inputs}


def output_of(cell: Cell) -> str:
    """The name of a cell's output."""
    return "".join(c if c.isalnum() else "_" for c in cell.kind)


def feed_of(cells: Sequence[Cell], rows: int, seed: int) -> dict[str, Array]:
    """A request of these cells."""
    rng = np.random.default_rng([seed, rows])
    found: dict[str, Array] = {}
    for cell in cells:
        for name, given in names_of(cell).items():
            found |= given.feed(name, rows, rng)
    return found


def save_model(cells: Sequence[Cell], path: Path) -> Path:
    """Write the SavedModel of cells of one style. Errors: OptionError where TensorFlow is absent."""
    tf = tensorflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow deprecates its feature columns
        if cells[0].style == KERAS:
            return _save_keras(tf, cells, path)
        return _save_graph(tf, cells, path)


def _save_graph(tf: Any, cells: Sequence[Cell], path: Path) -> Path:
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(7)
        inputs: dict[str, Any] = {}
        outputs: dict[str, Any] = {}
        for cell in cells:
            made = {n: _placeholder(v1, g, n) for n, g in names_of(cell).items()}
            inputs |= made
            given = {g.name: made[n] for n, g in names_of(cell).items()}
            outputs[output_of(cell)] = cell.build(tf, given, output_of(cell))
        with v1.Session() as session:
            tables = v1.tables_initializer()
            session.run([v1.global_variables_initializer(), tables])
            v1.saved_model.simple_save(session, str(path), inputs, outputs, legacy_init_op=tables)
    return path


def _save_keras(tf: Any, cells: Sequence[Cell], path: Path) -> Path:
    tf.keras.utils.set_random_seed(7)
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    for cell in cells:
        made = {n: tf.keras.Input(_shape(g)[1:], dtype=g.dtype, name=n) for n, g in names_of(cell).items()}
        inputs |= made
        outputs[output_of(cell)] = cell.build(tf, {g.name: made[n] for n, g in names_of(cell).items()}, output_of(cell))
    model = tf.keras.Model(inputs, outputs)
    model.export(str(path), verbose=False)
    return path


def _placeholder(v1: Any, given: Given, name: str) -> Any:
    if given.form == "open":
        return v1.placeholder(given.dtype, (None, None), name)
    if given.form == "sparse":
        return v1.sparse_placeholder(given.dtype, _shape(given), name)
    if given.form == "nested":
        return v1.ragged.placeholder(given.dtype, 2, name=name)
    if given.form == "ragged":
        return v1.ragged.placeholder(given.dtype, 1, name=name)
    return v1.placeholder(given.dtype, _shape(given), name)


def _shape(given: Given) -> tuple[int | None, ...]:
    return (None, given.width) if given.width else (None,)
