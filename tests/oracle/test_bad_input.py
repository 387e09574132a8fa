"""What a user gets wrong: each is one clear error that names what, where, what was got and what helps."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from colonnade import compiler
from colonnade.backends.feed import PackedFeed
from colonnade.errors import ColonnadeError, FeedError, ImportFailure, OptionError, UnsupportedOps
from colonnade.executable import Executable
from colonnade.testing import golden
from colonnade.testing.oracle import TensorFlowModel
from tests.oracle.tf_models import layer, saved

MODEL = golden.load("tiny_varied").model


def refused(kind: type[ColonnadeError], model: Path, *parts: str, **options: Any) -> ColonnadeError:
    """The error of compiling the model, whose text has all the parts."""
    with pytest.raises(kind) as caught:
        compiler.compile(model, "reference", **options)
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in: {caught.value}"
    return caught.value


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODEL, tmp_path / "model"))


# -- models ------------------------------------------------------------------------------------------------------------
def test_a_path_that_is_no_model(tmp_path: Path) -> None:
    refused(ImportFailure, tmp_path / "nothing", "not a SavedModel directory", str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("x")
    refused(ImportFailure, tmp_path / "file", "not a SavedModel directory", "a file")


def test_an_empty_directory(tmp_path: Path) -> None:
    refused(ImportFailure, tmp_path, "no saved_model.pb", str(tmp_path), "an empty directory")


def test_a_text_protobuf(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pbtxt").write_text("saved_model_schema_version: 1")
    refused(ImportFailure, tmp_path, "no saved_model.pb", "saved_model.pbtxt", "binary form")


def test_a_directory_of_models(model: Path) -> None:
    refused(ImportFailure, model.parent, "no saved_model.pb", "this directory holds models", "model")


def test_a_damaged_graph(model: Path) -> None:
    file = model / "saved_model.pb"
    content = file.read_bytes()
    for broken in (b"", b"no protobuf", content[: len(content) // 2], content[:-1]):
        file.write_bytes(broken)
        refused(ImportFailure, model, str(file))


def test_no_such_signature(model: Path) -> None:
    refused(ImportFailure, model, "no signature 'scoring'", "serving_default", signature="scoring")


def test_no_such_tags(model: Path) -> None:
    refused(ImportFailure, model, "exactly these tags", "serve, gpu", "pass tags=", tags=["serve", "gpu"])


def test_no_such_output(model: Path) -> None:
    refused(ImportFailure, model, "no such output", "best", "prediction", outputs=["best"])
    refused(ImportFailure, model, "no such output", "no output", outputs=[])


def test_truncated_variables(model: Path) -> None:
    (data,) = (model / "variables").glob("*.data-*")
    content = data.read_bytes()
    data.write_bytes(content[:-1])
    refused(ImportFailure, model, "truncated", f"511 of 512 bytes in {data.name}")


def test_a_missing_shard(model: Path) -> None:
    (data,) = (model / "variables").glob("*.data-*")
    data.unlink()
    refused(ImportFailure, model, data.name, "missing")


def test_a_missing_index(model: Path) -> None:
    (model / "variables" / "variables.index").unlink()
    refused(ImportFailure, model, "variables.index", "missing")


def test_no_variables_at_all(model: Path) -> None:
    shutil.rmtree(model / "variables")
    refused(ImportFailure, model, "no value for 50 variable(s)", "int_0_embedding/embedding_weights", "... and 30 more")


@pytest.fixture(scope="module")
def betainc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two outputs need ops that nothing here can say; one does not."""

    def made(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        fc = tf.feature_column
        value = tf.compat.v1.placeholder(tf.float32, (None, 1), "x")
        of = fc.bucketized_column(fc.numeric_column("x"), [0.0, 1.0])
        good = layer(tf, {"x": value}, fc.embedding_column(of, 2))["out"]
        beta = tf.raw_ops.Betainc(a=value, b=value, x=value, name="beta")
        first = tf.raw_ops.Zeta(x=beta, q=value, name="zeta")
        second = tf.identity(beta + tf.raw_ops.Lgamma(x=value, name="gamma"))
        ids = tf.cast(tf.raw_ops.Digamma(x=value, name="psi"), tf.int32)
        rows = tf.compat.v1.get_variable("some/rows", (9, 2), tf.float32)
        third = tf.reduce_sum(tf.gather(rows, ids), 1)
        return {"x": value}, {"good": good, "first": first, "second": second, "third": third}

    return saved(tmp_path_factory.mktemp("betainc") / "model", made)


def test_unsupported_ops_are_one_error_that_lists_them_with_the_outputs_they_feed(betainc: Path) -> None:
    error = refused(
        UnsupportedOps,
        betainc,
        "3 node(s) of the model use ops that are not supported",
        "beta (Betainc) feeds first, second; reads x",
        "gamma (Lgamma) feeds second; reads x",
        "psi (Digamma) feeds third; columns of x in table some/rows",
        "colonnade ops",
        "--outputs good",
    )
    assert "zeta" not in error.got  # it reads what is not supported: what to do about it is not known yet


def test_the_outputs_that_need_no_unsupported_op_compile(betainc: Path) -> None:
    executable = compiler.compile(betainc, outputs=["good"])
    feed = {"x": np.array([[-1.0], [0.5], [np.nan]], np.float32)}
    with TensorFlowModel(betainc) as oracle:
        expected = oracle.run(feed, [n.name for n in _tensors(oracle, "good")])
    got = executable(feed)
    assert list(got) == ["good"] and got["good"].tobytes() == next(iter(expected.values())).tobytes()
    refused(UnsupportedOps, betainc, "beta (Betainc) feeds first", outputs=["good", "first"])


def _tensors(oracle: TensorFlowModel, output: str) -> list[Any]:
    return [oracle._signature.outputs[output]]


def test_an_operand_without_a_value_is_an_error_even_inside_a_list(tmp_path: Path) -> None:
    """Ids made of what the dense network computes are no column: the concat that takes the rows is not run without."""

    def made(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        fc = tf.feature_column
        value = tf.compat.v1.placeholder(tf.float32, (None, 1), "x")
        scaled = fc.numeric_column("x", normalizer_fn=lambda x: tf.math.log1p(x) * 2)
        columns = [scaled, fc.embedding_column(fc.bucketized_column(scaled, [0.0, 1.0]), 3)]
        return {"x": value}, layer(tf, {"x": value}, *columns)

    refused(
        UnsupportedOps,
        saved(tmp_path / "model", made),
        "bucketize",
        "lookups that were not extracted",
        "log1p, which is no",
    )


def test_bad_options() -> None:
    for options, wanted in (({"id_policy": "ignore"}, "error, zero"), ({"threads": 0}, "a whole number")):
        refused(OptionError, MODEL, wanted, **options)  # type: ignore[arg-type]
    program = compiler.compile(MODEL, "reference").program
    with pytest.raises(OptionError, match="a program needs its weights"):
        compiler.compile(program)


# -- requests ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module", params=["reference", "cpu"])
def executable(request: pytest.FixtureRequest) -> Executable:
    return compiler.compile(MODEL, request.param)


def feed() -> dict[str, Any]:
    return dict(golden.load("tiny_varied").case("ordinary-7").feed)


def feed_error(executable: Executable, bad: Any, *parts: str) -> None:
    with pytest.raises(FeedError) as caught:
        executable(bad)
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in: {caught.value}"
    executable(feed())  # as good as before


def test_keys_missing_and_unexpected(executable: Executable) -> None:
    bad = feed()
    del bad["num_3"], bad["str_0"]
    bad["num_03"] = np.zeros((7, 1), np.float32)
    parts = ("in 3 places", "num_3: missing", "str_0: missing", "num_03: unexpected", "num_3: float32[B, 1]")
    feed_error(executable, bad, *parts)
    feed_error(executable, {}, "in 43 places", "dense: missing", "... and 23 more")


def test_wrong_dtypes(executable: Executable) -> None:
    bad = feed() | {"num_3": np.zeros((7, 1)), "str_0": np.zeros((7, 1), np.int64), "dense": [["a"] * 8] * 7}
    feed_error(executable, bad, "in 3 places", "num_3: is float64, want float32", "str_0: is int64", "dense: ")


def test_wrong_ranks_and_widths(executable: Executable) -> None:
    bad = feed() | {"num_3": np.zeros(7, np.float32), "dense": np.zeros((7, 9), np.float32)}
    feed_error(executable, bad, "num_3: has the shape [7], want [B, 1]", "dense: has the shape [7, 9], want [B, 8]")
    feed_error(executable, feed() | {"num_3": np.float32(1)}, "num_3: has the shape [], want [B, 1]")


def test_wrong_lengths(executable: Executable) -> None:
    bad = feed() | {"num_3": np.zeros((6, 1), np.float32), "dense": np.zeros((8, 8), np.float32)}
    feed_error(executable, bad, "in 2 places", "num_3: has 6 rows, want B = 7", "dense: has 8 rows, want B = 7")


def test_strings_that_are_none(executable: Executable) -> None:
    bad = feed()
    bad["str_0"] = bad["str_0"].copy()
    bad["str_0"][2, 0] = None
    feed_error(executable, bad, "str_0: element [2, 0] is NoneType None, want bytes or str")


def test_rows_of_different_lengths(executable: Executable) -> None:
    feed_error(executable, feed() | {"num_3": [[1.0], [2.0, 3.0]]}, "num_3: has rows of different lengths")


def test_nulls_in_a_record_batch(executable: Executable) -> None:
    columns = {k: pa.array(v.reshape(-1).tolist()) for k, v in feed().items() if k != "dense"}
    batch = pa.RecordBatch.from_pydict(columns | {"num_3": pa.array([1.0, None] + [0.0] * 5, pa.float32())})
    feed_error(executable, batch, "num_3: ", "null", "dense: missing")


def test_matrices_that_do_not_fit(executable: Executable) -> None:
    bad = PackedFeed({"float32": np.zeros((7, 3), np.float32), "float64": np.zeros((7, 1))})
    feed_error(executable, bad, "float32: has the shape [7, 3]", "string: missing", "float64: unexpected")


def test_other_things_than_requests(executable: Executable) -> None:
    for bad in (None, [1], "x", np.zeros(3)):
        feed_error(executable, bad, "a request is a mapping", type(bad).__name__)
