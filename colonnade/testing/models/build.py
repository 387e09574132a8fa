"""Makes the SavedModel of a ModelSpec: a TF1-style graph with reference variables, saved by `simple_save`."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

from colonnade.errors import OptionError
from colonnade.testing.models.spec import DENSE, EXAMPLES, ColumnSpec, ModelSpec
from colonnade.testing.tensorflow import tensorflow

# Uniform on (-sqrt 3, sqrt 3) has variance 1, which uniform weights of limit sqrt(6 / fan_in) then keep through ReLU
# layers: the logits come out with a deviation near 1, so that sigmoids are spread and not saturated.
_TABLE_LIMIT = math.sqrt(3.0)


def build(spec: ModelSpec, path: Path) -> Path:
    """Write the SavedModel of `spec` to the folder `path`, which must not exist, and return it.

    Facts: the same spec gives the same weights; the caller's TensorFlow state is left as it was.
    Errors: OptionError where TensorFlow is absent or `path` exists.
    """
    if path.exists():
        raise OptionError("the model's folder exists already", got=str(path), want="a path that does not exist")
    tf = tensorflow()
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(spec.seed)
        # The importer's first target is the reference variable (VariableV2); only this graph asks for it.
        tf.compat.v1.get_variable_scope().set_use_resource(False)
        inputs = {i.name: tf.compat.v1.placeholder(tf.as_dtype(i.dtype), i.shape, name=i.name) for i in spec.inputs}
        outputs, extra = _outputs(tf, spec, inputs)
        with tf.compat.v1.Session(config=_plain_config(tf)) as session:
            session.run(tf.compat.v1.global_variables_initializer())
            _save(tf, session, path, inputs, outputs, extra)
    return path


def _outputs(tf: Any, spec: ModelSpec, inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    columns = [_embedding(tf, spec, column) for column in spec.columns]
    if spec.serialized:
        features = _parsed(tf, spec, columns, inputs[EXAMPLES])
    else:
        features = {column.name: _feature(tf, column, inputs[column.name]) for column in spec.columns}
    concat = tf.compat.v1.feature_column.input_layer(features, columns)
    extra = {"columns": concat} if spec.extra_outputs else {}
    if not spec.top:
        return {"output": concat}, extra
    hidden = concat
    if spec.num_dense:
        dense = features[DENSE] if spec.serialized else inputs[DENSE]
        hidden = tf.concat([_mlp(tf, spec, "bottom", dense, spec.bottom), concat], axis=1, name="top_input")
    hidden = _mlp(tf, spec, "top", hidden, spec.top)
    score = tf.sigmoid(_layer(tf, spec, "logit", hidden, 1), name="score")
    if spec.extra_outputs:
        extra["score"] = score
    return {"prediction": tf.round(score, name="prediction")}, extra


def _parsed(tf: Any, spec: ModelSpec, columns: list[Any], examples: Any) -> dict[str, Any]:
    """The features of serialized Examples, as the columns say."""
    wanted = tf.feature_column.make_parse_example_spec(columns)
    if spec.num_dense:
        wanted[DENSE] = tf.io.FixedLenFeature([spec.num_dense], tf.float32)
    return dict(tf.io.parse_example(examples, wanted))


def _feature(tf: Any, column: ColumnSpec, placeholder: Any) -> Any:
    if column.kind != "split_hash":
        return placeholder
    return tf.compat.v1.strings.split(placeholder, sep=column.separator, result_type="SparseTensor")


def _embedding(tf: Any, spec: ModelSpec, column: ColumnSpec) -> Any:
    fc = tf.feature_column
    if column.kind == "bucketized":
        ids = fc.bucketized_column(fc.numeric_column(column.name), list(column.boundaries))
    else:
        dtype = tf.as_dtype(column.dtype)
        ids = fc.categorical_column_with_hash_bucket(column.name, column.rows, dtype=dtype)
    initializer = _uniform(tf, spec, f"table/{column.name}", _TABLE_LIMIT)
    return fc.embedding_column(ids, column.embedding_dim, combiner=column.pooling, initializer=initializer)


def _mlp(tf: Any, spec: ModelSpec, name: str, value: Any, widths: tuple[int, ...]) -> Any:
    for i, width in enumerate(widths):
        value = tf.nn.relu(_layer(tf, spec, f"{name}_{i}", value, width), name=f"{name}_{i}/relu")
    return value


def _layer(tf: Any, spec: ModelSpec, name: str, value: Any, width: int) -> Any:
    fan_in = int(value.shape[1])
    weight_init = _uniform(tf, spec, f"{name}/kernel", math.sqrt(6.0 / fan_in))
    bias_init = _uniform(tf, spec, f"{name}/bias", 0.1)
    kernel = tf.compat.v1.get_variable(f"{name}/kernel", (fan_in, width), tf.float32, weight_init)
    bias = tf.compat.v1.get_variable(f"{name}/bias", (width,), tf.float32, bias_init)
    return tf.nn.bias_add(tf.matmul(value, kernel, name=f"{name}/matmul"), bias, name=f"{name}/bias_add")


def _uniform(tf: Any, spec: ModelSpec, variable: str, limit: float) -> Any:
    # A seed from the name alone: a column keeps its table whatever stands beside it.
    seed = zlib.crc32(f"{spec.seed}/{variable}".encode()) & 0x7FFFFFFF
    return tf.compat.v1.random_uniform_initializer(-limit, limit, seed=seed)


def _save(
    tf: Any, session: Any, path: Path, inputs: dict[str, Any], outputs: dict[str, Any], extra: dict[str, Any]
) -> None:
    saved_model = tf.compat.v1.saved_model
    if not extra:
        saved_model.simple_save(session, str(path), inputs, outputs)
        return
    predict = saved_model.signature_def_utils.predict_signature_def
    builder = saved_model.Builder(str(path))
    signatures = {"serving_default": predict(inputs, outputs), "columns": predict(inputs, extra)}
    builder.add_meta_graph_and_variables(session, ["serve"], signatures, clear_devices=True)
    builder.save()


def _plain_config(tf: Any) -> Any:
    """A session that runs the graph as it stands: optimising 100,000 nodes in order to run them once takes minutes."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config
