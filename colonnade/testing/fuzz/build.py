"""The SavedModel of a random model, made by TensorFlow's own feature columns."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import Any

from colonnade.testing.fuzz.cases import Case, Input, Model, Tower
from colonnade.testing.tensorflow import tensorflow


def build(model: Model, path: Path) -> Path:
    """Write the SavedModel of `model` to the folder `path`, which must not exist, and return it.

    Facts: a case has the same table whatever other cases the model holds.
    Errors: OptionError where TensorFlow is absent.
    """
    tf = tensorflow()
    with warnings.catch_warnings(), tf.Graph().as_default():
        warnings.simplefilter("ignore")  # TensorFlow deprecates its feature columns
        tf.compat.v1.set_random_seed(model.seed)
        tf.compat.v1.get_variable_scope().set_use_resource(False)
        inputs = {
            i.name: tf.compat.v1.placeholder(tf.as_dtype(i.dtype), i.spec.shape, name=i.name) for i in model.inputs
        }
        outputs: dict[str, Any] = {}
        for tower in model.towers:
            outputs |= _tower(tf, model, tower, inputs)
        with tf.compat.v1.Session(config=_plain(tf)) as session:
            tables = tf.compat.v1.tables_initializer()
            session.run([tf.compat.v1.global_variables_initializer(), tables])
            tf.compat.v1.saved_model.simple_save(session, str(path), inputs, outputs, legacy_init_op=tables)
    return path


def _tower(tf: Any, model: Model, tower: Tower, inputs: dict[str, Any]) -> dict[str, Any]:
    by_name = {i.name: i for i in model.inputs}
    cases = [c for c in model.cases if c.tower == tower.number]
    features = {c.input: _feature(tf, by_name[c.input], inputs[c.input]) for c in cases}
    with tf.compat.v1.variable_scope(f"tower_{tower.number}"):
        columns = [_column(tf, model, by_name[c.input], c) for c in cases]
        layer = tf.compat.v1.feature_column.input_layer(features, columns)
        if not tower.width:
            return {f"layer_{tower.number}": layer}
        dense = _dense(tf, model, tower, layer)
    straight = {f"layer_{tower.number}": layer} if tower.straight else {}
    return {**straight, f"dense_{tower.number}": dense}


def _feature(tf: Any, item: Input, value: Any) -> Any:
    if not item.separator:
        return value
    return tf.compat.v1.strings.split(value, sep=item.separator, result_type="SparseTensor")


def _column(tf: Any, model: Model, item: Input, case: Case) -> Any:
    of = _categorical(tf, item, case)
    if case.form == "plain":
        return of
    if case.form == "indicator":
        return tf.feature_column.indicator_column(of)
    table = _uniform(tf, model, f"table {case.number}", 1.0)
    return tf.feature_column.embedding_column(of, case.embedding_dim, combiner=case.pooling, initializer=table)


def _categorical(tf: Any, item: Input, case: Case) -> Any:
    columns, dtype = tf.feature_column, tf.as_dtype(case.dtype)
    if case.kind == "bucketized":
        numbers = columns.numeric_column(case.input, (max(item.width, 1),), dtype=dtype)
        return columns.bucketized_column(numbers, list(case.boundaries))
    if case.kind == "hash":
        return columns.categorical_column_with_hash_bucket(case.input, case.size, dtype)
    if case.kind == "identity":
        return columns.categorical_column_with_identity(case.input, case.size, case.default)
    default = -1 if case.default is None else case.default
    return columns.categorical_column_with_vocabulary_list(
        case.input, list(case.words), dtype, default, case.oov_buckets
    )


def _dense(tf: Any, model: Model, tower: Tower, layer: Any) -> Any:
    shape = (int(layer.shape[1]), tower.width)
    kernel = tf.compat.v1.get_variable("kernel", shape, tf.float32, _uniform(tf, model, f"kernel {tower.number}", 0.3))
    bias = tf.compat.v1.get_variable("bias", shape[1:], tf.float32, _uniform(tf, model, f"bias {tower.number}", 0.3))
    found = tf.nn.bias_add(tf.matmul(layer, kernel), bias)
    return getattr(tf.nn, tower.activation)(found) if tower.activation else found


def _uniform(tf: Any, model: Model, name: str, limit: float) -> Any:
    seed = zlib.crc32(f"{model.seed}/{model.index}/{name}".encode()) & 0x7FFFFFFF
    return tf.compat.v1.random_uniform_initializer(-limit, limit, seed=seed)


def _plain(tf: Any) -> Any:
    """A session that runs the graph as it stands: optimising it in order to run it once takes longer."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config
