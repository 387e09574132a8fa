"""The SavedModel of a random model of Keras layers: a function that calls them, without a Keras model around it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.testing.fuzz.cases import Case, Model, Tower, placed, seed_of, taken
from colonnade.testing.fuzz.towers import tower_outputs
from colonnade.testing.tensorflow import tensorflow


def build_keras(model: Model, path: Path) -> Path:
    """Write the SavedModel of a model of Keras layers to the folder `path`, and return it.

    Facts: a case has the same table whatever other cases the model holds.
    Errors: OptionError where TensorFlow is absent.
    """
    tf = tensorflow()
    module = tf.Module()
    tables: dict[int, Any] = {}
    module.layers = {str(case.number): _layers(tf, model, case, tables, path.parent) for case in model.cases}
    # A session restores tf.Variables, of which Keras keeps its own away from what tf.Module saves.
    module.tables = [v.value for layers in module.layers.values() for layer in layers for v in layer.variables]

    def constant(name: str, initializer: Any) -> Any:
        return tf.constant(initializer, name=name)

    def answer(*values: Any) -> dict[str, Any]:
        inputs = dict(zip((i.name for i in model.inputs), values, strict=True))
        outputs: dict[str, Any] = {}
        made: dict[int, list[Any]] = {}
        for tower in model.towers:
            if tower.of < 0:
                made[tower.number] = _vectors(tf, tower, model, module, inputs, outputs)
            vectors = made[tower.number if tower.of < 0 else tower.of]
            outputs |= tower_outputs(tf, model, tower, vectors, None, constant)
        return outputs

    specs = [tf.TensorSpec(i.spec.shape, i.dtype, i.name) for i in model.inputs]
    served = tf.function(answer, autograph=False).get_concrete_function(*specs)
    module.served = served
    tf.saved_model.save(module, str(path), signatures=served)
    return path


def _vectors(
    tf: Any, tower: Tower, model: Model, module: Any, inputs: Mapping[str, Any], outputs: dict[str, Any]
) -> list[Any]:
    cases = [case for case in model.cases if case.tower == tower.number]
    return [_vector(tf, model, case, module.layers[str(case.number)], inputs, outputs) for case in cases]


def _vector(
    tf: Any, model: Model, case: Case, layers: list[Any], inputs: Mapping[str, Any], outputs: dict[str, Any]
) -> Any:
    """The vector of a case; outputs: its sequence is one."""
    value = taken(case, inputs[case.input])
    first, *rest = layers
    if case.kind == "numeric":
        item = placed(next(i for i in model.inputs if i.name == case.input), case)
        return tf.reshape(first(tf.cast(value, tf.float32)), [-1, max(1, item.width)])
    if case.others:
        value = first((value, *(inputs[name] for name in case.others)))
    else:
        value = first(value, count_weights=inputs[case.weights]) if case.weights else first(value)
    for layer in rest:
        value = layer(value)
    if case.form == "sequence":
        outputs[f"sequence_{case.number}"] = value
    if case.form == "marks":
        return tf.cast(value, tf.float32)
    return getattr(tf.keras.ops, case.pooling)(value, axis=-2) if case.pooling in ("mean", "sum", "max") else value


def _layers(tf: Any, model: Model, case: Case, tables: dict[int, Any], folder: Path) -> list[Any]:
    """The layers of a case. tables: those with rows, by the number of the case that they are named after."""
    keras = tf.keras
    item = placed(next(i for i in model.inputs if i.name == case.input), case)
    if case.kind == "numeric":
        return [keras.layers.Rescaling(0.5, offset=0.25)]
    found, rows = _ids(keras, model, case, folder)
    if case.form == "marks":
        return found
    masked, number = case.pooling == "masked", case.number if case.table < 0 else case.table
    if number not in tables:
        table = keras.initializers.RandomUniform(-1.0, 1.0, seed=seed_of(model, f"table {number}"))
        tables[number] = keras.layers.Embedding(
            rows, case.embedding_dim, embeddings_initializer=table, mask_zero=masked
        )
        tables[number].build(None)
    found.append(tables[number])
    if case.form == "flat" and item.width:
        found.append(keras.layers.Flatten())
    if masked:
        found.append(keras.layers.GlobalAveragePooling1D())
    return found


def _ids(keras: Any, model: Model, case: Case, folder: Path) -> tuple[list[Any], int]:
    """The layers that make ids, or marks of them, and how many ids there are."""
    layers, mode = keras.layers, {"output_mode": case.mode} if case.mode else {}
    if case.kind == "embedded":
        return [], case.size
    if case.kind == "encoded":
        return [layers.CategoryEncoding(case.size, **mode)], case.size
    if case.kind == "hashed_cross":
        return [layers.HashedCrossing(case.size, **mode)], case.size
    if case.kind == "hashing":
        return [layers.Hashing(case.size, mask_value=case.mask, salt=case.salt or None, **mode)], case.size
    if case.kind == "discretized":
        return [layers.Discretization(list(case.boundaries), **mode)], len(case.boundaries) + 1
    kind = layers.StringLookup if case.dtype == "string" else layers.IntegerLookup
    if case.mode == "tf_idf":
        rng = np.random.default_rng(seed_of(model, f"weights {case.number}"))
        mode["idf_weights"] = rng.uniform(0.1, 2, len(case.words)).astype(np.float32).tolist()
    words = words_file(case, folder) if case.file else list(case.words)
    layer = kind(vocabulary=words, num_oov_indices=case.oov_buckets, mask_token=case.mask, **mode)
    return [layer], layer.vocabulary_size()


def words_file(case: Case, folder: Path) -> str:
    """A file of the words of a case."""
    path = folder / f"words_{case.number}.txt"
    path.write_text("".join(f"{word}\n" for word in case.words), encoding="utf-8", newline="\n")
    return str(path)
