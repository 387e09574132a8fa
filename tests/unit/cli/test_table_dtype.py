"""`compile --table-dtype`: from the command line through the artifact to answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import colonnade
from colonnade.cli.app import app
from colonnade.core import quantize
from colonnade.errors import OptionError
from colonnade.ir.table_types import FLOAT32
from colonnade.testing import golden
from colonnade.testing.models.feeds import spec_feed

TARGET = ("--target", "reference")
MODEL = "micro10"


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def data(*words: object, exit_code: int = 0) -> Any:
    result = call(*words, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def model() -> Path:
    return golden.load(MODEL).model


@pytest.fixture(scope="module")
def stored(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("types") / "a"
    first = colonnade.compile(model, "reference").program.tables[0].name
    words = ("--table-dtype", "int8-rowwise", "--table-dtype", f"{first}=bfloat16")
    return path, data("compile", model, "-o", path, *TARGET, *words, "--record", 6)


def test_compile_reports_types_and_errors(stored: tuple[Path, dict[str, Any]]) -> None:
    path, found = stored
    types = {t["dtype"]: t for t in found["table_types"]}
    assert types["bfloat16"]["tables"] == 1 and types["int8_rowwise"]["tables"] > 1
    assert found["table_bytes"] == sum(t["bytes"] for t in types.values())
    assert len(found["stored_columns"]) == found["num_columns"] == 10
    errors = [c["largest_error"] for c in found["stored_columns"]]
    assert errors == sorted(errors, reverse=True) and all(e > 0 for e in errors)
    assert all(0 < c["rms_error"] <= c["largest_error"] for c in found["stored_columns"])
    assert found["recorded_by"] == "the reference backend"
    sizes = sum(p.stat().st_size - 4096 for p in (path / "tables").iterdir())
    assert sizes == found["table_bytes"]


def test_the_artifact_answers_as_its_stored_rows_say(
    stored: tuple[Path, dict[str, Any]], model: Path, tmp_path: Path
) -> None:
    path, found = stored
    loaded = colonnade.load(path, "reference")
    assert {t.dtype for t in loaded.report().tables} == {"bfloat16", "int8_rowwise"}
    assert loaded.report().table_bytes == found["table_bytes"]
    plain = colonnade.compile(model, "reference")
    tables = {}
    for table in loaded.program.tables:
        values = quantize.decode(loaded.weights.tables[table.name], table.dtype, table.embedding_dim)
        error = np.abs(values - plain.weights.tables[table.name]).max()
        stated = next(t for t in loaded.explanation.tables if t.table == table.name)
        assert error == stated.largest and stated.dtype == table.dtype and stated.bytes == table.bytes
        tables[table.name] = values
    feed = spec_feed(golden.load(MODEL).spec, 9, np.random.default_rng(1))
    got = loaded(feed)
    plain.swap(type(plain.weights)(tables, plain.weights.params, plain.weights.consts))
    want = plain(feed)
    assert all(np.array_equal(got[name], want[name]) for name in want)
    assert data("verify", path, *TARGET)["ok"]


def test_explain_shows_them(stored: tuple[Path, dict[str, Any]]) -> None:
    path, found = stored
    again = data("explain", path)
    assert again["stored_columns"] == found["stored_columns"] and again["table_types"] == found["table_types"]
    assert "columns of tables stored in other types: 10" in call("explain", path).stdout
    worst = found["stored_columns"][0]
    column = data("explain", path, "--column", worst["column"])
    assert column["stored"] == worst and column["table"]["dtype"] == worst["dtype"]
    assert "largest error" in call("explain", path, "--column", worst["column"]).stdout
    shown = call("compile", golden.load(MODEL).model, "--no-save", *TARGET, "--table-dtype", "float16").stdout
    assert "columns of tables stored in other types: 10" in shown and "float16" in shown


def test_a_refresh_keeps_the_types(stored: tuple[Path, dict[str, Any]], model: Path, tmp_path: Path) -> None:
    path, _ = stored
    found = data("compile", model, "--like", path, "-o", tmp_path / "b")
    assert found["files_written"] == 0
    assert colonnade.load(tmp_path / "b", "reference").explanation == colonnade.load(path, "reference").explanation
    refused = data("compile", model, "--like", path, "-o", tmp_path / "c", "--table-dtype", "float16", exit_code=2)
    assert "--like" in refused["error"]["message"] and refused["error"]["got"] == "--table-dtype"


def test_float32_changes_nothing(model: Path) -> None:
    found = data("compile", model, "--no-save", *TARGET, "--table-dtype", FLOAT32)
    assert found["stored_columns"] == [] and [t["dtype"] for t in found["table_types"]] == [FLOAT32]


def test_what_is_refused(model: Path) -> None:
    error = data("compile", model, "--no-save", *TARGET, "--table-dtype", "int4", exit_code=2)["error"]
    assert error["got"] == "no such type: 'int4'" and "int8_rowwise" in error["want"]
    plain = colonnade.compile(model, "reference")
    with pytest.raises(OptionError, match="no such table: 'nowhere'"):
        colonnade.compile(plain.program, "reference", weights=plain.weights, table_dtype={"nowhere": "float16"})
    half = colonnade.compile(plain.program, "reference", weights=plain.weights, table_dtype="float16")
    name = half.program.tables[0].name
    with pytest.raises(OptionError, match="is float16"):
        colonnade.compile(half.program, "reference", weights=half.weights, table_dtype={name: "bfloat16"})
