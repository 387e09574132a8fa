"""SavedModels as people have them: several tag sets, no default signature, optimizers in the object graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade
from colonnade.cli.app import app
from colonnade.compiler import refresh
from colonnade.errors import ArtifactError, ImportFailure
from colonnade.testing.oracle import TensorFlowModel
from colonnade.testing.tensorflow import tensorflow
from tests.oracle.dense_models import same

FEED = {"x": np.float32([[1, -2, 3], [0.5, 0, -1]])}


def agrees(path: Path, signature: str | None = None, tags: tuple[str, ...] = ("serve",)) -> None:
    executable = colonnade.compile(path, target="reference", signature=signature, tags=list(tags))
    with TensorFlowModel(path, signature=signature, tags=tags) as model:
        feed = {each.name: FEED["x"] for each in model.inputs()}
        want = model.run(feed)
    got = executable(feed)
    for name in want:
        same(got[name], want[name], 1e-6, False, name)


def test_two_tag_sets(tmp_path: Path) -> None:
    tf = tensorflow()
    path = tmp_path / "model"
    builder = tf.compat.v1.saved_model.builder.SavedModelBuilder(str(path))
    for k, tags in enumerate((["train"], ["serve"])):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, (None, 3), name="x")
            weight = tf.compat.v1.get_variable("w", initializer=tf.constant([[1.0], [2.0], [3.0]]), use_resource=True)
            out = tf.matmul(x, weight) + float(k)
            session.run(tf.compat.v1.global_variables_initializer())
            made = tf.compat.v1.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"out": out})
            add = builder.add_meta_graph_and_variables if k == 0 else builder.add_meta_graph
            add(*([session] if k == 0 else []), tags, {"serving_default": made})
    builder.save()
    agrees(path, tags=("train",))
    agrees(path)
    with pytest.raises(ImportFailure, match="tag"):
        colonnade.compile(path, target="reference", tags=["serve", "gpu"])


def module(tf: Any) -> Any:
    class Model(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable([[1.0], [2.0], [3.0]])
            self.optimizer = tf.keras.optimizers.Adam()
            self.optimizer.build([self.w])

        @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
        def score(self, x: Any) -> Any:
            return {"score": tf.nn.sigmoid(tf.matmul(x, self.w))}

        @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
        def rank(self, x: Any) -> Any:
            return {"rank": tf.argmax(x, 1)}

    return Model()


def test_signatures_without_a_default(tmp_path: Path) -> None:
    tf = tensorflow()
    made = module(tf)
    only, both = tmp_path / "only", tmp_path / "both"
    tf.saved_model.save(made, str(only), signatures={"score": made.score})
    tf.saved_model.save(made, str(both), signatures={"score": made.score, "rank": made.rank})
    agrees(only)
    agrees(both, "rank")
    agrees(both, "score")
    with pytest.raises(ImportFailure, match="no default signature") as caught:
        colonnade.compile(both, target="reference")
    assert "rank, score" in caught.value.got


def test_a_compiled_keras_model_with_its_optimizer(tmp_path: Path) -> None:
    tf = tensorflow()
    tf.keras.utils.set_random_seed(1)
    inputs = tf.keras.Input((3,), name="x")
    hidden = tf.keras.layers.Dense(4, activation="gelu")(inputs)
    hidden = tf.keras.layers.BatchNormalization()(tf.keras.layers.LayerNormalization()(hidden))
    attended = tf.keras.layers.MultiHeadAttention(2, 2)(*[tf.keras.layers.Reshape((2, 2))(hidden)] * 2)
    joined = tf.keras.layers.Concatenate()([tf.keras.layers.Flatten()(attended), hidden])
    output = tf.keras.layers.Dense(1, activation="hard_sigmoid")(tf.keras.layers.Dropout(0.5)(joined))
    model = tf.keras.Model(inputs, output)
    model.compile("adam", "mse")
    model.fit(FEED["x"], np.zeros((2, 1), np.float32), verbose=0)
    path = tmp_path / "model"
    tf.saved_model.save(model, str(path))
    serve = tf.saved_model.load(str(path)).signatures["serving_default"]
    (key,) = serve.structured_input_signature[1]
    want = {k: v.numpy() for k, v in serve(**{key: tf.constant(FEED["x"])}).items()}
    got = colonnade.compile(path, target="reference")({key: FEED["x"]})
    for name in want:
        same(got[name], want[name], 1e-5, False, name)


def test_a_signature_whose_keys_are_swapped_is_another_graph(tmp_path: Path) -> None:
    """The nodes are the same: only the signature says which input is which."""
    tf = tensorflow()
    for name, keys in (("a", ("x", "y")), ("b", ("y", "x"))):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            first, second = (tf.compat.v1.placeholder(tf.float32, (None, 3), n) for n in ("p", "q"))
            given = dict(zip(keys, (first, second), strict=True))
            tf.compat.v1.saved_model.simple_save(session, str(tmp_path / name), given, {"out": first - 2.0 * second})
    colonnade.compile(tmp_path / "a", target="reference").save(tmp_path / "old")
    with pytest.raises(ArtifactError, match="not the one"):
        refresh(tmp_path / "b", tmp_path / "old", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def known_numbers(tf: Any) -> Any:
    """A table from int64 to int64, rows of a variable, and a slot of an optimizer."""

    class Model(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            keys = tf.lookup.KeyValueTensorInitializer(
                tf.constant([70, -3, 2**40], tf.int64), tf.constant([2, 0, 3], tf.int64)
            )
            self.known = tf.lookup.StaticHashTable(keys, 1)
            self.rows = tf.Variable(tf.random.stateless_normal((4, 3), (1, 2)))
            self.moment = tf.Variable(tf.zeros((4, 3)))

        @tf.function(input_signature=[tf.TensorSpec((None,), tf.int64, name="x")])
        def serve(self, x: Any) -> Any:
            return {"out": tf.gather(self.rows, self.known.lookup(x))}

    return Model()


def with_slots(path: Path) -> None:
    """The object graph says that an object which has none has a slot variable."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    file = path / "saved_model.pb"
    made = SavedModel.FromString(file.read_bytes())
    nodes = made.meta_graphs[0].object_graph_def.nodes
    variables = [k for k, node in enumerate(nodes) if node.WhichOneof("kind") == "variable"]
    slot = nodes[0].slot_variables.add()
    slot.original_variable_node_id, slot.slot_name, slot.slot_variable_node_id = variables[0], "m", variables[1]
    file.write_bytes(made.SerializeToString())


def test_an_object_graph_that_tensorflow_refuses(tmp_path: Path) -> None:
    """What is read is the graph and the values of its variables: slots of optimizers are neither."""
    tf = tensorflow()
    made, path = known_numbers(tf), tmp_path / "model"
    tf.saved_model.save(made, str(path), signatures=made.serve)
    feed = {"x": np.array([70, -3, 1, 2**40, -3])}
    want = made.serve(tf.constant(feed["x"]))["out"].numpy()
    with_slots(path)
    with pytest.raises(AttributeError, match="add_slot"):
        tf.saved_model.load(str(path))
    for target in ("reference", "cpu"):
        executable = colonnade.compile(path, target=target)
        assert len(executable.program.columns) == 1 and np.array_equal(executable(feed)["out"], want)
    executable.save(tmp_path / "artifact")
    result = CliRunner().invoke(app, ["verify", str(tmp_path / "artifact"), "--against", str(path), "--rows", "40"])
    assert result.exit_code == 0, result.output
