from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from colonnade.cli import opt
from colonnade.cli.app import app
from colonnade.cli.run import read_npz, write_npz
from colonnade.errors import ColonnadeError
from colonnade.ops.graph.concat import Concat
from colonnade.passes.base import Editor, Pass
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing import golden
from colonnade.testing.bench import torch_threads
from colonnade.testing.models.feeds import spec_feed
from colonnade.testing.models.spec import ModelSpec

TARGET = ("--target", "reference")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def model() -> Path:
    return golden.load("micro10").model


@pytest.fixture(scope="module")
def spec() -> ModelSpec:
    return golden.load("micro10").spec


@pytest.fixture(scope="module")
def artifact(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "micro10.art"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colonnade.cli.compile.TensorFlowSide", _no_tensorflow)
        result = call("compile", model, "-o", path, *TARGET, "--record", 12)
    assert result.exit_code == 0, result.output
    assert "answered by the reference backend" in result.stdout
    return path


def _no_tensorflow(*_: object) -> None:
    raise ColonnadeError("TensorFlow is not installed")


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def data(*words: object, exit_code: int = 0) -> Any:
    result = call(*words, "--json")
    assert result.exit_code == exit_code, result.output
    assert result.stdout.count("\n") == 1, "one JSON object on stdout and nothing else"
    return json.loads(result.stdout)


def feed(spec: ModelSpec, rows: int = 5) -> dict[str, Any]:
    return spec_feed(spec, rows, np.random.default_rng(0))


def copied(model: Path, to: Path) -> Path:
    return shutil.copytree(model, to / "model")


# -- what works -------------------------------------------------------------------------------------------------------


def test_help_and_version() -> None:
    assert "compile" in call("--help").stdout
    assert call("--version").stdout.strip()


def test_compile_gives_its_summary_as_json(model: Path, tmp_path: Path) -> None:
    found = data("compile", model, "-o", tmp_path / "a", *TARGET)
    assert found["num_columns"] == 10 and found["share_removed"] > 0.8
    assert found["structures"] == [{"structure": "bucketize(x) | sum", "columns": 10}]
    assert {"import", "passes", "save"} <= found["seconds"].keys() and (tmp_path / "a" / "manifest.json").exists()


def test_compile_prints_graphs_and_the_program_and_writes_nothing(model: Path) -> None:
    result = call("compile", model, "--no-save", *TARGET, "--print-after", "extract-columns", "--print-program")
    assert result.exit_code == 0
    assert "after extract-columns" in result.stdout and "colonnade program" in result.stdout


def test_compile_needs_a_place_to_save_to(model: Path) -> None:
    assert failed("compile", model, *TARGET)["message"] == "nowhere to save to"


def test_compile_like_writes_only_what_changed(model: Path, artifact: Path, tmp_path: Path) -> None:
    found = data("compile", model, "--like", artifact, "-o", tmp_path / "b")
    assert found["bytes_written"] == 0 and found["bytes_reused"] > 0


def test_a_refresh_records_rows_of_the_new_weights(
    model: Path, artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colonnade.cli.compile.TensorFlowSide", _no_tensorflow)
    found = data("compile", model, "--like", artifact, "-o", tmp_path / "b", "--record", 5)
    assert found["recorded_rows"] == 5 and data("verify", tmp_path / "b", *TARGET)["rows"] == 5


def test_a_refresh_refuses_at_once_all_that_it_would_ignore(model: Path, artifact: Path, tmp_path: Path) -> None:
    words = ("--id-policy", "zero", "--no-save", "--print-program", "--outputs", "x", "--threads", 2)
    found = failed("compile", model, "--like", artifact, "-o", tmp_path / "b", *words)
    assert found["got"] == "--outputs, --id-policy, --threads, --print-program, --no-save"
    assert not (tmp_path / "b").exists()


def test_the_id_policy_is_that_of_the_compilation(model: Path, tmp_path: Path) -> None:
    from colonnade import compiler

    data("compile", model, "-o", tmp_path / "a", *TARGET, "--id-policy", "zero")
    data("compile", model, "--like", tmp_path / "a", "-o", tmp_path / "b")
    found = [compiler.load(tmp_path / name, "reference").report().id_policy for name in "ab"]
    assert found == ["zero", "zero"]
    assert compiler.load(tmp_path / "a", "reference", id_policy="error").report().id_policy == "error"


def test_verify_by_golden_rows(artifact: Path) -> None:
    found = data("verify", artifact, *TARGET)
    assert found["ok"] and found["oracle"] == "golden rows of the reference backend" and found["rows"] == 12
    assert "EQUAL" in call("verify", artifact, *TARGET).stdout


def test_verify_is_red_for_changed_golden_rows(model: Path, artifact: Path, tmp_path: Path) -> None:
    from colonnade import compiler
    from colonnade.artifact import Golden

    executable = compiler.load(artifact, "reference")
    assert executable.golden is not None
    outputs = {k: np.array(v) for k, v in executable.golden.outputs.items()}
    outputs["concat:" + executable.program.buffers[0].name][3, 2] += 1
    executable.save(tmp_path / "c", golden=Golden(executable.golden.inputs, outputs))
    found = data("verify", tmp_path / "c", *TARGET, exit_code=1)
    assert not found["ok"] and found["failed"]["concat"] == 1 and found["failed"]["column"] == 1
    assert "NOT EQUAL" in call("verify", tmp_path / "c", *TARGET).stdout


def test_verify_needs_something_to_compare_with(model: Path, tmp_path: Path) -> None:
    assert call("compile", model, "-o", tmp_path / "a", *TARGET).exit_code == 0
    assert failed("verify", tmp_path / "a", *TARGET)["message"] == "the artifact has no golden rows"


def test_run_takes_npz_parquet_and_json(artifact: Path, spec: ModelSpec, tmp_path: Path) -> None:
    values = feed(spec)
    np.savez(tmp_path / "r.npz", **values)
    flat = {name: value[:, 0] for name, value in values.items()}
    pyarrow.parquet.write_table(pa.table(flat), tmp_path / "r.parquet")
    rows = [{name: float(column[i]) for name, column in flat.items()} for i in range(5)]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    columns = {name: [[float(v)] for v in column] for name, column in flat.items()}
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    answers = []
    for name in ("r.npz", "r.parquet", "rows.json", "columns.json"):
        result = call("run", artifact, tmp_path / name, "-o", tmp_path / "out.npz", *TARGET)
        assert result.exit_code == 0, result.output
        with np.load(tmp_path / "out.npz") as stored:
            answers.append(stored["output"])
    assert answers[0].shape == (5, 80) and all(np.array_equal(a, answers[0]) for a in answers)
    assert np.array_equal(data("run", artifact, tmp_path / "r.npz", *TARGET)["outputs"]["output"], answers[0])


def test_explain_the_model_and_the_artifact_alike(model: Path, artifact: Path, tmp_path: Path) -> None:
    of_model, of_artifact = data("explain", model), data("explain", artifact)
    for key in ("source_nodes", "nodes_before", "nodes_after", "structures", "guards_removed_by_proof", "tables"):
        assert of_model[key] == of_artifact[key], key
    assert of_model["guards_removed"] > 0 and of_model["guards_removed_by_proof"][0]["reason"]
    result = call("explain", artifact, "--html", tmp_path / "sub" / "e.html")
    assert "guards removed" in result.stdout
    page = (tmp_path / "sub" / "e.html").read_text()
    assert "bucketize" in page and "<script" not in page and "http" not in page


def test_explain_a_column(artifact: Path, tmp_path: Path) -> None:
    found = data("explain", artifact, "--column", "num_3")
    assert found["ids"].startswith("bucketize") and found["slots"][0]["width"] == 8
    assert found["source_nodes"] > 10 and any(d["applied"] for d in found["decisions"])
    result = call("explain", artifact, "-c", "num_3", "--html", tmp_path / "c.html")
    assert "num_3" in result.stdout and "num_3" in (tmp_path / "c.html").read_text()


def test_explain_an_unknown_column_names_near_ones(artifact: Path) -> None:
    error = failed("explain", artifact, "--column", "nun_3")
    assert error["message"] == "no such column" and error["want"].splitlines()[0] == "num_3"


def test_bench_refuses_without_a_check(model: Path, tmp_path: Path) -> None:
    assert call("compile", model, "-o", tmp_path / "a", *TARGET).exit_code == 0
    error = failed("bench", tmp_path / "a", *TARGET, "--out-dir", tmp_path / "r")
    assert "nothing to check against" in error["message"] and not (tmp_path / "r").exists()


def test_bench_writes_a_row_a_batch_size_and_a_report(artifact: Path, tmp_path: Path) -> None:
    words = (artifact, *TARGET, "--batch", "1,4", "--runs", 1, "--out-dir", tmp_path, "--threads", 1)
    found = data("bench", *words)
    rows = [json.loads(line) for line in (tmp_path / "micro10.art.jsonl").read_text().splitlines()]
    assert [(r["what"], r["batch"]) for r in rows] == [("columns", 1), ("columns", 4)]
    assert rows == found["measured"] and rows[0]["check"]["ok"]
    timing = rows[0]["sides"]["colonnade"]
    assert 0 < timing["p20"] <= timing["p50"] <= timing["p80"] and rows[0]["floor"]["bytes"] > 0
    assert "<svg" in (tmp_path / "micro10.art.html").read_text()
    assert call("bench", *words).exit_code == 0
    assert len((tmp_path / "micro10.art.jsonl").read_text().splitlines()) == 4, "rows are appended"


def test_opt_prints_the_graph(model: Path) -> None:
    found = data("opt", model, "--passes", "drop-identities,drop-guards", "--print-after", "all")
    assert [p["pass"] for p in found["passes"]] == ["drop-identities", "drop-guards"] and len(found["printed"]) == 2
    assert "bucketize" in call("opt", model, "--passes", "none").stdout


class SwapOperands(Pass):
    """Wrong on purpose: the first two operands of the widest concat change places."""

    def run(self, editor: Editor) -> int:
        node = max((n for n in editor.graph.nodes() if isinstance(n.target, Concat)), key=lambda n: len(n.args))
        first, second, *rest = node.args
        node.args = (second, first, *rest)
        return 1


def test_opt_bisects_a_wrong_pass(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data("opt", model, "--bisect", "auto")["first_wrong"] is None
    wrong = (*COLUMNS[:3], SwapOperands(), *COLUMNS[3:])
    monkeypatch.setattr(opt, "COLUMNS", wrong)
    assert data("opt", model, "--bisect", "auto") == {"first_wrong": "swap-operands", "after_passes": 4}


def test_opt_bisects_by_a_feed(model: Path, spec: ModelSpec, tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", **feed(spec))
    assert "every pass keeps the answer" in call("opt", model, "--bisect", tmp_path / "f.npz").stdout


def test_ops_and_passes_list_what_there_is() -> None:
    found = data("ops")
    assert {"bucketize", "mod", "split"} <= {o["op"] for o in found["column ops"]}
    assert all(o["meaning"] for group in found.values() for o in group)
    names = {o["tensorflow op"] for o in data("ops", "--source", "tensorflow")["tensorflow ops"]}
    assert {"Bucketize", "SparseSegmentMean", "Identity"} <= names
    assert [p["pass"] for p in data("passes")["passes"]] == [p.name for p in COLUMNS]
    assert "extract-columns" in call("passes").stdout and "bucketize" in call("ops").stdout


# -- what fails ------------------------------------------------------------------------------------------------------


def failed(*words: object) -> dict[str, str]:
    """The error: exit code 2, on stderr as text without a traceback, on stdout as JSON."""
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr and not result.stdout
    error: dict[str, str] = data(*words, exit_code=2)["error"]
    assert error["message"] in result.stderr
    return error


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    assert failed("compile", tmp_path / "x", "--no-save")["kind"] == "ImportFailure"
    assert failed("explain", tmp_path / "x")["kind"] == "ImportFailure"
    assert failed("verify", tmp_path / "x")["kind"] == "ArtifactError"
    assert failed("run", tmp_path / "missing", tmp_path / "f.npz")["kind"] == "ArtifactError"


def test_a_signature_that_does_not_exist(model: Path) -> None:
    error = failed("compile", model, "--no-save", "--signature", "train")
    assert "train" in error["message"] and "serving_default" in error["got"]


def test_outputs_that_do_not_exist(model: Path) -> None:
    assert "nope" in failed("compile", model, "--no-save", "--outputs", "nope")["got"]


def test_an_artifact_has_settled_its_signature(artifact: Path) -> None:
    assert "one signature" in failed("explain", artifact, "--signature", "x")["message"]


def test_a_truncated_variables_file(model: Path, tmp_path: Path) -> None:
    folder = copied(model, tmp_path)
    stored = folder / "variables" / "variables.data-00000-of-00001"
    stored.write_bytes(stored.read_bytes()[:100])
    assert failed("compile", folder, "-o", tmp_path / "a", *TARGET)["kind"] == "ImportFailure"
    assert not (tmp_path / "a").exists()


def test_a_variable_that_does_not_match_its_checksum(model: Path, artifact: Path, tmp_path: Path) -> None:
    folder = copied(model, tmp_path)
    stored = folder / "variables" / "variables.data-00000-of-00001"
    content = bytearray(stored.read_bytes())
    content[0] ^= 1
    stored.write_bytes(content)
    for more in (TARGET, ("--like", artifact)):
        error = failed("compile", folder, "-o", tmp_path / "a", *more)
        assert error["kind"] == "ImportFailure" and "do not match their checksums" in error["message"]
    assert not (tmp_path / "a").exists()


def test_an_unsupported_op(model: Path, tmp_path: Path) -> None:
    folder = copied(model, tmp_path)
    graph = (folder / "saved_model.pb").read_bytes()
    assert b"\x09Bucketize" in graph
    (folder / "saved_model.pb").write_bytes(graph.replace(b"\x09Bucketize", b"\x09Bucketizx"))
    error = failed("compile", folder, "--no-save")
    assert error["kind"] == "UnsupportedOps" and "Bucketizx" in error["got"] + error["where"]


def test_a_damaged_artifact(artifact: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(artifact, tmp_path / "a")
    table = next((folder / "tables").iterdir())
    content = bytearray(table.read_bytes())
    content[-1] ^= 1
    table.write_bytes(content)
    error = failed("verify", folder, *TARGET)
    assert error["kind"] == "ArtifactError" and table.name in error["got"]


def test_feeds_with_problems(artifact: Path, spec: ModelSpec, tmp_path: Path) -> None:
    values = feed(spec)
    del values["num_1"]
    values["num_2"] = values["num_2"][:3]
    values["num_3"] = values["num_3"].astype(np.int32)
    np.savez(tmp_path / "bad.npz", other=np.zeros(3), **values)
    error = failed("run", artifact, tmp_path / "bad.npz", *TARGET)
    assert error["kind"] == "FeedError"
    for part in ("num_1: missing", "num_2", "num_3: is int32", "other: unexpected"):
        assert part in error["got"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npz", b"no archive"),
        ("a.npz", b""),
        ("a.parquet", b"nothing"),
        ("a.json", b"{"),
        ("a.json", b"3"),
        ("a.json", b'[{"num_0": 1}, {}]'),
        ("a.json", b"\xff\xfe"),
        ("a.txt", b""),
    ],
)
def test_feeds_that_cannot_be_read(name: str, content: bytes, artifact: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert failed("run", artifact, tmp_path / name, *TARGET)["kind"] == "FeedError"


def test_a_feed_that_is_not_there(artifact: Path, tmp_path: Path) -> None:
    assert failed("run", artifact, tmp_path / "none.npz", *TARGET)["message"] == "no such file"


def test_objects_in_a_feed_are_not_unpickled(artifact: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", allow_pickle=True, num_0=np.array([b"x"], object))
    assert failed("run", artifact, tmp_path / "o.npz", *TARGET)["kind"] == "FeedError"


def test_options_that_make_no_sense(model: Path, artifact: Path) -> None:
    assert failed("compile", model, "--no-save", "--target", "tpu")["got"] == "'tpu'"
    assert "extract-columns" in failed("compile", model, "--no-save", "--print-after", "nope")["want"]
    assert "drop-guards" in failed("opt", model, "--passes", "drop-guard")["want"]
    assert failed("opt", model, "--bisect", "nothing.npz")["kind"] == "OptionError"
    assert failed("verify", artifact, *TARGET, "--batch", "1,x")["kind"] == "OptionError"
    assert failed("ops", "--source", "jax")["want"] == "tensorflow"
    assert call("run", artifact).exit_code == 2


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "x"), "--debug"])
    assert isinstance(result.exception, ColonnadeError)


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("colonnade.compiler.lower", interrupted)
    result = call("explain", model)
    assert result.exit_code == 130 and result.stderr.strip() == "interrupted" and not result.stdout


def test_outputs_of_any_name_are_written(tmp_path: Path) -> None:
    arrays = {name: np.arange(3.0) for name in ("file", "allow_pickle", "a/b", "\u00fc")}
    write_npz(tmp_path / "o", arrays)
    got = read_npz(tmp_path / "o.npz")
    assert got.keys() == arrays.keys() and all((got[k] == v).all() for k, v in arrays.items())


def test_lists_without_end_are_no_request(artifact: Path, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000)
    result = call("run", artifact, tmp_path / "deep.json", *TARGET)
    assert result.exit_code == 2 and "lists in lists" in result.stderr


def test_the_module_is_the_command_and_any_encoding_will_do() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "colonnade", "run", "\u00fc", "\u00fc.json", "--json"]
    found = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert found.returncode == 2 and b"Traceback" not in found.stderr
    assert "\u00fc" in json.loads(found.stdout)["error"]["where"]
