"""The SavedModel of a random model of Keras layers: a function that calls them, without a Keras model around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colonnade.testing.fuzz.cases import Case, Model, Tower, seed_of
from colonnade.testing.fuzz.towers import tower_outputs
from colonnade.testing.tensorflow import tensorflow


def build_keras(model: Model, path: Path) -> Path:
    """Write the SavedModel of a model of Keras layers to the folder `path`, and return it.

    Facts: a case has the same table whatever other cases the model holds.
    Errors: OptionError where TensorFlow is absent.
    """
    tf = tensorflow()
    module = tf.Module()
    module.layers = {str(case.number): _layers(tf, model, case) for case in model.cases}
    # A session restores tf.Variables, of which Keras keeps its own away from what tf.Module saves.
    module.tables = [v.value for layers in module.layers.values() for layer in layers for v in layer.variables]

    def constant(name: str, initializer: Any) -> Any:
        return tf.constant(initializer, name=name)

    def answer(*values: Any) -> dict[str, Any]:
        inputs = dict(zip((i.name for i in model.inputs), values, strict=True))
        outputs: dict[str, Any] = {}
        made: dict[int, list[Any]] = {}
        for tower in model.towers:
            made[tower.number] = made[tower.of] if tower.of >= 0 else _vectors(tower, model, module, inputs)
            outputs |= tower_outputs(tf, model, tower, made[tower.number], None, constant)
        return outputs

    specs = [tf.TensorSpec(i.spec.shape, i.dtype, i.name) for i in model.inputs]
    served = tf.function(answer, autograph=False).get_concrete_function(*specs)
    module.served = served
    tf.saved_model.save(module, str(path), signatures=served)
    return path


def _vectors(tower: Tower, model: Model, module: Any, inputs: dict[str, Any]) -> list[Any]:
    vectors = []
    for case in model.cases:
        if case.tower == tower.number:
            value = inputs[case.input]
            for layer in module.layers[str(case.number)]:
                value = layer(value)
            vectors.append(value)
    return vectors


def _layers(tf: Any, model: Model, case: Case) -> list[Any]:
    keras = tf.keras
    item = next(i for i in model.inputs if i.name == case.input)
    found, rows = _ids(keras, case)
    table = keras.initializers.RandomUniform(-1.0, 1.0, seed=seed_of(model, f"table {case.number}"))
    embedding = keras.layers.Embedding(rows, case.embedding_dim, embeddings_initializer=table)
    embedding.build(None)
    found.append(embedding)
    if item.width:
        found.append(keras.layers.Flatten())
    return found


def _ids(keras: Any, case: Case) -> tuple[list[Any], int]:
    """The layers that make ids, and how many ids there are."""
    if case.kind == "embedded":
        return [], case.size
    if case.kind == "hashing":
        return [keras.layers.Hashing(case.size, mask_value=case.mask)], case.size
    if case.kind == "discretized":
        return [keras.layers.Discretization(list(case.boundaries))], len(case.boundaries) + 1
    kind = keras.layers.StringLookup if case.dtype == "string" else keras.layers.IntegerLookup
    layer = kind(vocabulary=list(case.words), num_oov_indices=case.oov_buckets, mask_token=case.mask)
    return [layer], layer.vocabulary_size()
