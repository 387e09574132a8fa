"""`colonnade verify` on models with one number of rows, with other tags, and against another model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from colonnade import compiler
from colonnade.cli.app import app
from colonnade.cli.models import tensorflow_side
from colonnade.errors import OptionError
from colonnade.testing.recording import record, recorded
from colonnade.testing.requests import fixed_rows
from colonnade.testing.sides import ColonnadeSide
from colonnade.testing.tensorflow import tensorflow
from colonnade.testing.verify import requests_for, verify
from tests.oracle.test_padded_tokens import by_space, exported
from tests.oracle.tf_models import counted, saved

ROWS = 4


def build(rows: int | None, key: str = "x") -> Any:
    def made(tf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        x = tf.compat.v1.placeholder(tf.int64, [rows, 1], "x")
        table = tf.compat.v1.get_variable("t", (5, 3), initializer=counted(tf))
        return {key: x}, {"y": tf.gather(table, tf.squeeze(x % 5, [1])) * 2.0}

    return made


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield saved(tmp_path_factory.mktemp("fixed") / "model", build(ROWS))


def test_a_model_of_one_number_of_rows_gets_requests_of_that_number(fixed: Path) -> None:
    executable = compiler.compile(fixed, "reference")
    program, backend = executable.program, compiler.backend("reference")
    assert fixed_rows(program) == ROWS
    requests = list(requests_for(program, (1, 7), 9))
    assert {len(r.feed["x"]) for r in requests} == {r.rows for r in requests} == {ROWS}
    assert len({r.name for r in requests}) == len(requests) >= 7
    oracle = tensorflow_side(fixed, executable, None, None)
    ours = ColonnadeSide(executable, backend)
    assert verify(ours, oracle, program, executable.weights, requests).ok
    request, side = recorded(program, record(program, oracle, 32))
    oracle.close()
    assert request.rows == ROWS
    assert verify(ours, side, program, executable.weights, [request]).ok


def test_another_model_is_refused_at_once(fixed: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "other", build(None, "z"))
    with pytest.raises(OptionError, match="not the one") as caught:
        tensorflow_side(other, compiler.compile(fixed, "reference"), None, None)
    assert caught.value.got == "no input x: int64"


def test_tags_are_those_of_the_model_that_is_compiled(tmp_path: Path) -> None:
    tf = tensorflow()
    model = tmp_path / "tagged"
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs, outputs = build(None)(tf)
        session.run(tf.compat.v1.global_variables_initializer())
        signature = tf.compat.v1.saved_model.predict_signature_def(inputs, outputs)
        builder = tf.compat.v1.saved_model.Builder(str(model))
        builder.add_meta_graph_and_variables(session, ["serve", "gpu"], {"serving_default": signature})
        builder.save()
    options = ["--tags", "serve,gpu", "--target", "reference", "--batch", "1", "--rows", "2"]
    result = CliRunner().invoke(app, ["verify", str(model), *options])
    assert result.exit_code == 0, result.output


def test_the_rounding_of_long_rows_is_allowed_behind_a_small_dense_rest(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["verify", str(exported(tmp_path / "model", by_space))])
    assert result.exit_code == 0, result.output
