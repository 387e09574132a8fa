"""The made models are what their specs say, as TensorFlow sees them."""

import collections
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from colonnade import compiler
from colonnade.errors import OptionError
from colonnade.ir.column import fields_read
from colonnade.testing.models import ModelSpec, TensorSpec, build, cached, named
from colonnade.testing.models.__main__ import app
from colonnade.testing.models.examples import encode_example
from colonnade.testing.models.feeds import Hints, corner_feed, ordinary_feed, spec_corner_feed, spec_feed
from colonnade.testing.models.keras_spec import KINDS, keras_model
from colonnade.testing.oracle import OracleError, TensorFlowModel

SPEC = named("tiny_varied_outputs")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(SPEC, tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[TensorFlowModel]:
    with TensorFlowModel(path) as loaded:
        yield loaded


def test_graph_has_reference_variables_only(model: TensorFlowModel) -> None:
    kinds = collections.Counter(model.node_kinds().values())
    num_dense = 2 * (len(SPEC.bottom) + len(SPEC.top) + 1)
    assert kinds["VariableV2"] == len(SPEC.columns) + num_dense
    assert not {"VarHandleOp", "ReadVariableOp", "ResourceGather"} & set(kinds)
    expected = collections.Counter(column.kind for column in SPEC.columns)
    assert kinds["Bucketize"] == expected["bucketized"]
    assert kinds["StringToHashBucketFast"] == expected["hash"] + expected["split_hash"]
    assert kinds["StringSplitV2"] == expected["split_hash"]


def test_signature(model: TensorFlowModel) -> None:
    assert model.inputs() == tuple(sorted(SPEC.inputs, key=lambda each: each.name))
    assert model.outputs() == (TensorSpec("prediction", "float32", (None, 1)),)


def test_second_signature(path: Path) -> None:
    with TensorFlowModel(path, "columns") as model:
        assert {(o.name, o.shape) for o in model.outputs()} == {("columns", (None, SPEC.width)), ("score", (None, 1))}
        answer = model.run(spec_feed(SPEC, 64, np.random.default_rng(0)))
    assert answer["columns"].shape == (64, SPEC.width) and answer["score"].shape == (64, 1)


def test_scores_are_spread(model: TensorFlowModel) -> None:
    score = model.run(spec_feed(SPEC, 256, np.random.default_rng(0)), ["score:0"])["score:0"]
    assert score.std() > 0.05 and score.min() < 0.5 < score.max()
    assert ((score > 0.01) & (score < 0.99)).mean() > 0.9


def test_same_spec_same_weights_and_no_trace_in_the_process(tmp_path: Path) -> None:
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    spec = named("micro2")
    feed = spec_feed(spec, 33, np.random.default_rng(0))
    answers = []
    for name in ("a", "b"):
        with TensorFlowModel(build(spec, tmp_path / name), threads=1) as model:
            answers.append(model.run(feed)["output"])
    assert np.array_equal(answers[0], answers[1])
    assert np.ptp(answers[0]) > 1.0
    assert tf.executing_eagerly() and tf.compat.v1.get_default_graph() is graph
    assert tf.compat.v1.resource_variables_enabled()


def test_a_mean_column_is_a_row_of_its_table(model: TensorFlowModel) -> None:
    column = next(column for column in SPEC.columns if column.kind == "bucketized")
    table = f"input_layer/{column.name}_bucketized_embedding/embedding_weights:0"
    source = next(
        name for name in model.operands("input_layer/concat") if name.startswith(f"input_layer/{column.name}_")
    )
    feed = spec_feed(SPEC, 33, np.random.default_rng(1))
    found = model.run(feed, [table, source])
    ids = np.searchsorted(np.array(column.boundaries, np.float32), feed[column.name][:, 0], side="right")
    assert found[table].shape == (column.rows, column.embedding_dim)
    assert np.array_equal(found[source], found[table][ids])


def test_without_rewrites_the_answers_stay(model: TensorFlowModel, path: Path) -> None:
    tensors = ["input_layer/concat:0", "score:0"]
    with TensorFlowModel(path, optimize=False, threads=1) as plain:
        for batch in (0, 1, 33):
            feed = spec_corner_feed(SPEC, batch, np.random.default_rng(batch))
            wanted, found = model.run(feed, tensors), plain.run(feed, tensors)
            for name in tensors:
                np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5)


def test_run_errors(model: TensorFlowModel) -> None:
    feed = spec_feed(SPEC, 3, np.random.default_rng(0))
    with pytest.raises(OracleError, match="no_such_key"):
        model.run(feed | {"no_such_key": np.zeros(3, np.float32)})
    with pytest.raises(OracleError, match="no_such_tensor"):
        model.run(feed, ["no_such_tensor:0"])
    with pytest.raises(OracleError, match="placeholder"):
        model.run({key: value for key, value in feed.items() if key != "num_0"})
    with pytest.raises(OracleError, match=r"'top_input'\nConcatOp : Dimension 0"):
        model.run(feed | {"num_0": np.zeros((4, 1), np.float32)}, ["score:0"])
    with pytest.raises(OracleError, match="no_such_node"):
        model.operands("no_such_node")


def test_load_errors(path: Path, tmp_path: Path) -> None:
    with pytest.raises(OracleError):
        TensorFlowModel(path, tags=("nothing",))
    with pytest.raises(OracleError):
        TensorFlowModel(tmp_path)
    with pytest.raises(OptionError, match="exists already"):
        build(named("micro1"), path)
    with pytest.raises(OracleError, match="no such signature"):
        TensorFlowModel(build(named("micro1"), tmp_path / "micro1"), "nothing")


def test_module_of_tensorflow_2(tmp_path: Path) -> None:
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable(np.arange(20, dtype=np.float32).reshape(10, 2))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="ids")])  # type: ignore[untyped-decorator]
        def __call__(self, ids: object) -> dict[str, object]:
            return {"rows": tf.gather(self.table, ids)}

    module = Module()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    with TensorFlowModel(tmp_path / "m", threads=1) as model:
        assert [(i.name, i.dtype, i.shape) for i in model.inputs()] == [("ids", "int64", (None,))]
        rows = model.run({"ids": np.array([3, 0], np.int64)})["rows"]
        assert np.array_equal(rows, [[6.0, 7.0], [0.0, 1.0]])
        with pytest.raises(OracleError, match="not in"):
            model.run({"ids": np.array([10], np.int64)})


@pytest.mark.parametrize("make", [ordinary_feed, corner_feed])
def test_examples_parse_to_what_was_written(make: Callable[..., dict[str, NDArray[Any]]]) -> None:
    import tensorflow as tf

    features = (
        TensorSpec("floats", "float32", (None,)),
        TensorSpec("ints", "int64", (None,)),
        TensorSpec("texts", "string", (2,)),
    )
    hints = Hints(examples={"x": features}, ids={}, boundaries={"floats": [1.5]})
    messages = make((TensorSpec("x", "string", (None,)),), 40, np.random.default_rng(0), hints)["x"]
    seen = set()
    for message in messages:
        example = tf.train.Example.FromString(message)
        lists = example.features.feature
        assert set(lists) == {"floats", "ints", "texts"} and len(lists["texts"].bytes_list.value) == 2
        assert len(lists["floats"].float_list.value) <= 3 and len(lists["ints"].int64_list.value) <= 3
        seen.update(lists["ints"].int64_list.value)
    assert len(seen) > 5 and (make is ordinary_feed or {-1, 2**63 - 1, -(2**63)} <= seen)
    written: dict[str, tuple[str, list[Any]]]
    written = {"floats": ("float32", [1.5, -0.0]), "ints": ("int64", [0, -5, 300]), "texts": ("string", [b"", b"a\0"])}
    lists = tf.train.Example.FromString(encode_example(written)).features.feature
    assert list(lists["floats"].float_list.value) == [1.5, 0.0] and list(lists["ints"].int64_list.value) == [0, -5, 300]
    assert list(lists["texts"].bytes_list.value) == [b"", b"a\0"]


def test_strings_reach_tensorflow_whole(tmp_path: Path) -> None:
    import tensorflow as tf

    with tf.Graph().as_default():
        text = tf.compat.v1.placeholder(tf.string, [None], name="text")
        length = tf.strings.length(text)
        with tf.compat.v1.Session() as session:
            tf.compat.v1.saved_model.simple_save(session, str(tmp_path / "m"), {"text": text}, {"length": length})
    with TensorFlowModel(tmp_path / "m") as model:
        feed = np.array([b"", b"a\0", b"\0\0\0", b"\xff\xfe"], object)
        assert model.run({"text": feed})["length"].tolist() == [0, 2, 3, 2]


def test_cached_builds_once_also_when_raced(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        paths = list(pool.map(lambda _: cached("micro1", tmp_path), range(3)))
    assert len(set(paths)) == 1 and (paths[0] / "saved_model.pb").exists()
    assert [each.name for each in tmp_path.iterdir()] == [paths[0].name]
    before = paths[0].stat().st_mtime_ns
    assert cached("micro1", tmp_path) == paths[0] and paths[0].stat().st_mtime_ns == before


def test_command(tmp_path: Path) -> None:
    bad = CliRunner().invoke(app, ["no_such", str(tmp_path / "x")])
    assert bad.exit_code == 1 and "no such test model" in bad.stderr
    good = CliRunner().invoke(app, ["micro1", str(tmp_path / "m")])
    assert good.exit_code == 0 and (tmp_path / "m" / "saved_model.pb").exists()


def test_without_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    spec: ModelSpec = named("micro1")
    with pytest.raises(OptionError, match="TensorFlow is not installed"):
        build(spec, tmp_path / "m")
    with pytest.raises(OptionError, match="TensorFlow is not installed"):
        TensorFlowModel(tmp_path)


def test_a_model_of_keras_layers(tmp_path: Path) -> None:
    """Every kind of layer is a column, but for floats that go to the dense layers as they are; answers are equal."""
    spec = keras_model(2 * len(KINDS))
    assert {f.kind for f in spec.features} == set(KINDS) and len({f.size for f in spec.features}) > 12
    path = cached(spec.name, tmp_path)
    assert path == cached(spec.name, tmp_path)
    executable = compiler.compile(path)
    columns = {field for c in executable.program.columns for field in fields_read(c)}
    assert columns == {i.name for i in spec.inputs if not i.name.startswith("normalized")}
    with TensorFlowModel(path) as model:
        assert {i.name for i in model.inputs()} == {i.name for i in spec.inputs}
        for batch, feed in ((0, spec.feed), (1, spec.feed), (70, spec.feed), (33, spec.corner_feed)):
            request = feed(batch, np.random.default_rng(batch))
            expected = model.run(request)["score"]
            np.testing.assert_allclose(executable(request)["score"], expected, rtol=2e-5, atol=1e-6, equal_nan=True)
            if batch == 70:
                assert expected.std() > 0.05
