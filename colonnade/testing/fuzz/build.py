"""The SavedModel of a random model, made by TensorFlow's own feature columns, or of Keras layers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from colonnade.testing.fuzz.build_keras import build_keras, words_file
from colonnade.testing.fuzz.build_ops import vector, whole
from colonnade.testing.fuzz.build_sequences import sequences
from colonnade.testing.fuzz.cases import SEQUENCES, Case, Input, Model, Tower, seed_of
from colonnade.testing.fuzz.encode import EXAMPLES, listed
from colonnade.testing.fuzz.towers import tower_outputs
from colonnade.testing.kinds.columns import dense_parts
from colonnade.testing.tensorflow import tensorflow


def build(model: Model, path: Path) -> Path:
    """Write the SavedModel of `model` to the folder `path`, which must not exist, and return it.

    Facts: a case has the same table whatever other cases the model holds.
    Errors: OptionError where TensorFlow is absent.
    """
    if model.style == "keras":
        return build_keras(model, path)
    tf = tensorflow()
    with warnings.catch_warnings(), tf.Graph().as_default():
        warnings.simplefilter("ignore")  # TensorFlow deprecates its feature columns
        tf.compat.v1.set_random_seed(model.seed)
        tf.compat.v1.get_variable_scope().set_use_resource(model.index % 2 == 1)
        inputs, features = (_parsed if model.serialized else _given)(tf, model)
        outputs: dict[str, Any] = {}
        tables: dict[int, Any] = {}
        made: dict[int, tuple[list[Any], Any]] = {}
        for tower in model.towers:
            if tower.of < 0:
                made[tower.number] = _vectors(tf, model, tower, features, tables, outputs, path.parent)
            vectors = made[tower.number if tower.of < 0 else tower.of]
            outputs |= tower_outputs(tf, model, tower, *vectors, tf.compat.v1.get_variable)
        with tf.compat.v1.Session(config=_plain(tf)) as session:
            tables = tf.compat.v1.tables_initializer()
            session.run([tf.compat.v1.global_variables_initializer(), tables])
            tf.compat.v1.saved_model.simple_save(session, str(path), inputs, outputs, legacy_init_op=tables)
    return path


def _given(tf: Any, model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of the signature, and the features that they are."""
    inputs = {i.name: _placeholder(tf, i) for i in model.inputs}
    features = {i.name: _feature(tf, i, inputs[i.name]) for i in model.inputs}
    features |= {whole(i.name): inputs[i.name] for i in model.inputs if i.separator}
    for case in model.cases:
        if case.weights:
            ids, weights = features[case.input], inputs[case.weights]
            if isinstance(ids, tf.SparseTensor):
                features[case.weights] = ids.with_values(weights)
            elif isinstance(ids, tf.RaggedTensor):
                features[case.weights] = ids.with_flat_values(weights)
    return inputs, features


def _placeholder(tf: Any, item: Input) -> Any:
    v1, dtype = tf.compat.v1, tf.as_dtype(item.dtype)
    if item.form == "sparse":
        return v1.sparse_placeholder(dtype, [None, None], item.name)
    if item.form == "ragged":
        return v1.ragged.placeholder(dtype, 1, [], item.name)
    if item.form == "nested":
        return v1.ragged.placeholder(dtype, 2, [], item.name)
    shapes = {"open": (None, None), "weights": (None,)}
    return v1.placeholder(dtype, shapes.get(item.form, item.spec.shape), item.name)


def _parsed(tf: Any, model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Serialized Examples, and what is parsed of them: floats of so many values, all else of any number."""
    examples = tf.compat.v1.placeholder(tf.string, (None,), name=EXAMPLES)
    varying = listed(model)
    spec = {
        i.name: tf.io.VarLenFeature(i.dtype) if i.name in varying else tf.io.FixedLenFeature((i.width,), i.dtype)
        for i in model.inputs
    }
    return {EXAMPLES: examples}, tf.compat.v1.io.parse_example(examples, spec)


def _vectors(
    tf: Any,
    model: Model,
    tower: Tower,
    features: dict[str, Any],
    tables: dict[int, Any],
    outputs: dict[str, Any],
    folder: Path,
) -> tuple[list[Any], Any]:
    """The vectors of a tower's cases, and the input layer that they are side by side, where there is one.

    outputs: what is an output itself is added.   folder: for files of words.
    """
    by_name = {i.name: i for i in model.inputs}
    cases = [c for c in model.cases if c.tower == tower.number]
    if model.style == "ops":
        return _tiled(tf, [vector(tf, model, c, features, tables, outputs) for c in cases]), None
    features = {name: features[name] for c in cases for name in c.reads}
    with tf.compat.v1.variable_scope(f"tower_{tower.number}", partitioner=_partitioner(tower)):
        if model.style in SEQUENCES:
            make = partial(_columns, tf, model, by_name, folder)
            return sequences(tf, cases, features, make, outputs), None
        columns = [column for c in cases for column in _columns(tf, model, by_name, folder, c)]
        found: dict[Any, Any] = {}
        if model.newer:
            found = dense_parts(tf, columns, features)
            layer = tf.concat([found[c] for c in sorted(columns, key=lambda c: c.name)], 1)
        else:
            layer = tf.compat.v1.feature_column.input_layer(features, columns, cols_to_output_tensors=found)
        return [found[column] for column in columns], layer


def _partitioner(tower: Tower) -> Any:
    """What cuts a table into parts, none of them empty; None for tables of one variable."""
    if tower.parts == 1:
        return None
    return lambda shape, **_: [min(tower.parts, int(shape[0])), *[1] * (len(shape) - 1)]


def _tiled(tf: Any, vectors: list[Any]) -> list[Any]:
    """Vectors of one row as often as there are rows beside them."""
    batch = next((tf.shape(v)[0] for v in vectors if v.shape[0] is None), None)
    return [v if v.shape[0] is None or batch is None else tf.tile(v, [batch, 1]) for v in vectors]


def _feature(tf: Any, item: Input, value: Any) -> Any:
    if not item.separator:
        return value
    return tf.compat.v1.strings.split(value, sep=item.separator, result_type="SparseTensor")


def _columns(tf: Any, model: Model, by_name: Mapping[str, Input], folder: Path, case: Case) -> list[Any]:
    """The columns of a case: one, or those that share a table."""
    item, fc, sequence = by_name[case.input], tf.feature_column, model.style in SEQUENCES
    if case.kind == "numeric" and sequence:
        return [fc.sequence_numeric_column(case.input, default_value=case.default)]
    if case.kind == "numeric":
        return [fc.numeric_column(case.input, (max(item.width, 1),), dtype=tf.as_dtype(case.dtype))]
    files = folder if case.file else None
    of = _crossed(tf, by_name, case) if case.kind == "crossed" else _categorical(tf, item, case, files, sequence)
    if case.weights:
        of = fc.weighted_categorical_column(of, case.weights)
    if case.form == "plain":
        return [of]
    if case.form == "indicator":
        return [fc.indicator_column(of)]
    table = tf.compat.v1.random_uniform_initializer(-1.0, 1.0, seed=seed_of(model, f"table {case.number}"))
    options = {"combiner": case.pooling, "initializer": table, "max_norm": case.max_norm or None}
    if case.form == "embedding":
        return [fc.embedding_column(of, case.embedding_dim, **options)]
    others = [_categorical(tf, by_name[n], replace(case, input=n), files, sequence) for n in case.others]
    newer = sequence or model.newer
    share = fc.shared_embeddings if newer else tf.compat.v1.feature_column.shared_embedding_columns
    name = "shared_embedding_collection_name"
    found: list[Any] = share([of, *others], case.embedding_dim, **options, **{name: f"shared_{case.number}"})
    return found


def _crossed(tf: Any, by_name: Mapping[str, Input], case: Case) -> Any:
    """A cross of features as they are; of floats, of their buckets; of words, where there are some, of these."""
    columns = tf.feature_column

    def key(name: str) -> Any:
        item = by_name[name]
        if item.dtype.startswith("float"):
            numbers = columns.numeric_column(name, (max(item.width, 1),), dtype=tf.as_dtype(item.dtype))
            return columns.bucketized_column(numbers, list(case.boundaries))
        if item.dtype == "string" and case.words:
            return columns.categorical_column_with_vocabulary_list(name, list(case.words), num_oov_buckets=2)
        return name

    return columns.crossed_column([key(name) for name in case.reads], case.size, hash_key=case.default)


def _categorical(tf: Any, item: Input, case: Case, files: Path | None, sequence: bool) -> Any:
    """Ids. files: where a file of its words is written, if they are in one.   sequence: whether they are not pooled."""
    columns, dtype = tf.feature_column, tf.as_dtype(case.dtype)
    if case.kind == "bucketized":
        numbers = columns.numeric_column(case.input, (max(item.width, 1),), dtype=dtype)
        return columns.bucketized_column(numbers, list(case.boundaries))
    prefix = "sequence_" if sequence else ""
    if case.kind == "hash":
        make = getattr(columns, f"{prefix}categorical_column_with_hash_bucket")
        return make(case.input, case.size, dtype)
    if case.kind == "identity":
        make = getattr(columns, f"{prefix}categorical_column_with_identity")
        return make(case.input, case.size, case.default)
    default = -1 if case.default is None else case.default
    options = {"dtype": dtype, "num_oov_buckets": case.oov_buckets}
    options |= {} if case.oov_buckets else {"default_value": default}
    make = getattr(columns, f"{prefix}categorical_column_with_vocabulary_{'file' if files else 'list'}")
    if files is None:
        return make(case.input, list(case.words), **options)
    return make(case.input, words_file(case, files), len(case.words), **options)


def _plain(tf: Any) -> Any:
    """A session that runs the graph as it stands: optimising it in order to run it once takes longer."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config
