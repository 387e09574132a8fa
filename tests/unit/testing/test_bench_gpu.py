"""`bench --target gpu` by the interpreted backend, and on a device where there is one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from benchmarks import table
from benchmarks.gpu import rows as benchmark_rows
from colonnade import compiler
from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.gpu.occupancy import Occupancy, Resources
from colonnade.backends.reference import ReferenceBackend
from colonnade.cli.app import app
from colonnade.core import dims
from colonnade.errors import OptionError
from colonnade.executable import Executable
from colonnade.ir.column import Slot
from colonnade.ir.program import Input, Program
from colonnade.testing import bench_gpu, golden, html, picture, report_gpu
from colonnade.testing.bench import Refused, append, bytes_of_columns, torch_threads
from colonnade.testing.bench_gpu import ARROW, KERNEL, OURS, PACKED, DeviceBench
from colonnade.testing.points import columns_only
from colonnade.testing.recording import record
from colonnade.testing.requests import Request, make_request
from colonnade.testing.rows import Row
from colonnade.testing.sides import ColonnadeSide
from tests.unit.testing.test_ragged_requests import PROGRAM, weights

CPU = torch.device("cpu")
SMALL = columns_only(
    replace(
        PROGRAM,
        inputs=tuple(i for i in PROGRAM.inputs if i.name != "score"),
        columns=(PROGRAM.columns[0], replace(PROGRAM.columns[3], slots=(Slot("out", 4, 4),))),
        buffers=(replace(PROGRAM.buffers[0], width=8),),
    )
)
"""The interpreter takes a tenth of a second for each of its requests."""


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def bench() -> DeviceBench:
    checked = {"oracle": "recorded rows", "rows": 3, "ok": True}
    return DeviceBench("ragged", SMALL, weights(), GpuBackend(interpret=True), checked=checked, device=CPU)


@pytest.fixture(scope="module")
def measured(bench: DeviceBench) -> list[Row]:
    found = list(bench.run((2,), 1))
    assert all(isinstance(m, Row) for m in found)
    return [m for m in found if isinstance(m, Row)]


def test_a_row_of_whole_requests_and_one_of_the_columns(measured: list[Row]) -> None:
    whole, columns = measured
    assert (whole.what, columns.what, whole.batch) == ("whole", "columns", 2)
    assert set(whole.sides) == {OURS, PACKED, ARROW} == set(whole.checks) and set(columns.sides) == {KERNEL}
    assert set(whole.parts) == {"read", "stage", "copy in", "columns", "dense", "copy out"}
    assert "kernels a request" not in whole.facts and "waves" not in columns.facts  # nothing is counted on a host
    moved = bytes_of_columns(SMALL, make_request(SMALL, "ordinary", 2))
    floor = columns.floor
    assert floor["bytes"] == moved and floor["seconds"] == moved / floor["bytes_per_second"]
    assert columns.facts["GB/s"] == moved / columns.sides[KERNEL].p50 / 1e9
    assert columns.facts["programs"] >= 2


def test_programs_are_those_of_the_request() -> None:
    bench = DeviceBench("ragged", PROGRAM, weights(), GpuBackend(interpret=True), device=CPU)
    (columns,) = bench._columns
    reader = FeedReader(PROGRAM, layouts(PROGRAM))
    for rows in (1, 70, 300):
        packed = reader.read(make_request(PROGRAM, "ordinary", rows).feed)
        elements = len(packed.packed[0].ragged["ids"])
        plain = sum(g.programs(rows) for g in columns.schedule.plain)
        tiles = sum(-(-(elements + rows) // g.structure.items) * len(g.units) for g in columns.schedule.tiled)
        assert bench._launch(packed)["programs"] == plain + tiles


def test_what_a_launch_takes_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = DeviceBench("ragged", PROGRAM, weights(), GpuBackend(interpret=True), device=CPU)
    packed = FeedReader(PROGRAM, layouts(PROGRAM)).read(make_request(PROGRAM, "ordinary", 70).feed)
    monkeypatch.setattr(bench, "_occupancy", [Occupancy("d", Resources(90, 96, 512, 2, 0), 10, 132)])
    facts = bench._launch(packed)
    assert facts["waves"] == facts["programs"] / 1320 and facts["registers a thread"] == 96
    monkeypatch.setattr(bench, "_occupancy", ["no tool"])
    assert bench._launch(packed) == {"programs": facts["programs"], "waves": "unknown: no tool"}


def test_rows_have_the_form_of_the_gpu_benchmarks(measured: list[Row], tmp_path: Path) -> None:
    path = append(tmp_path, measured, "gpu_")
    assert path == tmp_path / "gpu_ragged.jsonl"
    stored = benchmark_rows.read(tmp_path)
    assert stored == [json.loads(json.dumps(m.row())) for m in measured]
    lines = benchmark_rows.table_rows(stored)
    assert any(line[3] == "floor" for line in lines) and any(line[3] == PACKED for line in lines)
    assert "<svg" in benchmark_rows.report("t", stored)


def test_the_readmes_table_of_a_gpu_has_a_line_a_side(measured: list[Row], tmp_path: Path) -> None:
    append(tmp_path, measured, "gpu_")
    (tmp_path / "gpu_old.jsonl").write_text(json.dumps({**measured[0].row(), "date": "2000-01-01", "batch": 9}) + "\n")
    assert table.newest(tmp_path) == []
    rows = table.newest(tmp_path, on_gpu=True)
    assert [(r["what"], r["batch"]) for r in rows] == [("whole", 2), ("whole", 9), ("columns", 2)]
    text = table.rendered_on_gpu(rows)
    assert text.count("\n| ragged |") == 3 + 3 + 1 and "triton 3" in text
    marks = (table.GPU_BEGIN, table.GPU_END)
    page = table.placed(f"a\n{marks[0]}\nold\n{marks[1]}\nb\n", text, marks)
    assert "old" not in page and page.endswith("b\n")


def test_the_page_shows_bars_facts_and_checks(measured: list[Row]) -> None:
    page = report_gpu.report("title & more", measured)
    assert "title &amp; more" in page and page.count("<rect") == sum(len(g) for _, g in report_gpu.groups(measured))
    assert "bytes that must move" in page and "recorded rows" in page and "<script" not in page
    assert any(line[3] == "- copy in" for line in report_gpu.table_rows(measured))
    assert report_gpu.report("nothing", []).count("<h2>") == 0


def test_a_form_that_answers_otherwise_gets_no_number(bench: DeviceBench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench._runner.run

    def wrong(request: Any, room: Any = None) -> Any:
        outcome = run(request, room)
        if room is None:
            outcome.outputs["out"][0, 0] += 1
        return outcome

    monkeypatch.setattr(bench._runner, "run", wrong)
    (found,) = bench.run((2,), 1)
    assert isinstance(found, Refused) and found.verdict.results["output:out"].outside == bench_gpu.CALLS
    assert "no number" in report_gpu.report("t", [], [found])


def test_where_the_host_pools_the_kernel_has_no_floor() -> None:
    backend = GpuBackend(interpret=True, table_budget=0, host_tables="pooled")
    bench = DeviceBench("host", SMALL, weights(), backend, checked={"rows": 1}, device=CPU)
    whole, columns = bench.run((1,), 1)
    assert isinstance(whole, Row) and isinstance(columns, Row)
    assert columns.floor == {} and columns.facts == {"tables in host memory": 2}
    assert "host columns" in whole.parts and "of the floor" not in report_gpu.table_rows([columns])[0]


def test_an_oracle_is_asked_once_a_request() -> None:
    asked = []

    class Oracle:
        name = "oracle"

        def answer(self, request: Request) -> dict[str, Any]:
            asked.append(request.name)
            return {}

    remembered = bench_gpu._Remembered(Oracle())
    one, other = make_request(PROGRAM, "ordinary", 1), make_request(PROGRAM, "corner", 1)
    for request in (one, one, other, other, one):
        remembered.answer(request)
    assert asked == [one.name, other.name, one.name]


def test_a_record_batch_answers_as_the_dict_does(bench: DeviceBench) -> None:
    request = make_request(SMALL, "ordinary", 5)
    batch = bench_gpu.record_batch(SMALL, request)
    assert batch is not None and batch.num_rows == 5 and "ends" not in batch.schema.names
    np.testing.assert_array_equal(bench.executable(batch)["out"], bench.executable(request.feed)["out"])
    scalar = replace(SMALL, inputs=(*SMALL.inputs, Input("k", "int64", ())))
    assert bench_gpu.record_batch(scalar, Request("r", 5, {**request.feed, "k": np.array(1)})) is None
    wide = Program((Input("x", "float32", (dims.symbol("B"), 2)),), (), (), (), (), ())
    found = bench_gpu.record_batch(wide, Request("r", 2, {"x": np.ones((2, 2), np.float32)}))
    assert found is not None and found.column("x").to_pylist() == [[1, 1], [1, 1]]


def test_activities_are_counted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def event(name: str, kind: str = "CUDA", us: float = 2.0) -> SimpleNamespace:
        time = SimpleNamespace(elapsed_us=lambda: us)
        return SimpleNamespace(name=name, device_type=SimpleNamespace(name=kind), time_range=time)

    events = [
        event("columns"),
        event("Memcpy HtoD"),
        event("gemm", us=5.0),
        event("Memset"),
        event("cudaLaunch", "CPU"),
    ]

    class Profile:
        def __init__(self, **_: object) -> None: ...
        def __enter__(self) -> Profile:
            return self

        def __exit__(self, *_: object) -> None: ...
        def events(self) -> list[SimpleNamespace]:
            return events * 2

    monkeypatch.setattr(bench_gpu, "profile", Profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    found = bench_gpu.activities(lambda: None, 2, torch.device("cuda", 0))
    assert found is not None and found.count() == 2 and found.count("columns") == 1 and found.copies == 2
    assert found.kernels["gemm"] == pytest.approx([5e-6, 5e-6]) and bench_gpu.activities(lambda: None, 2, CPU) is None


@pytest.mark.gpu
def test_one_kernel_for_all_columns_on_a_device() -> None:
    executable = compiler.compile(golden.load("tiny").model, "reference", threads=1)
    made = DeviceBench("tiny", executable.program, executable.weights, compiler.backend("gpu"), checked={"rows": 1})
    whole, columns = made.run((32,), 3)
    assert isinstance(whole, Row) and isinstance(columns, Row)
    assert whole.facts["kernels for the columns"] == 1 <= whole.facts["kernels a request"]
    assert columns.facts["waves"] > 0 and columns.facts["GB/s"] > 0 and columns.facts["registers a thread"] > 0
    assert columns.sides[KERNEL].p50 > 0 and columns.machine["gpu"]


# -- pictures ----------------------------------------------------------------------------------------------------------

GROUPS: list[html.Group] = [
    ("one", [html.Bar("a", 1.0, 0.9, 1.2, "1 s"), html.Bar("b", 0.0, 0.0, 0.0, "0 s", 7)]),
    ("none", []),
    ("two", [html.Bar("c", 2e-6, 1e-6, 3e-6, "2 us", 1)]),
]


def test_a_picture_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OptionError, match=r"colonnade\[report\]"):
        picture.draw(tmp_path / "p.png", "t", GROUPS)
    words = ("bench", golden.load("micro10").model, "--png", tmp_path / "p.png")
    result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 2 and "colonnade[report]" in result.stderr


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    for groups in (GROUPS, []):
        path = tmp_path / "sub" / "p.png"
        picture.draw(path, "title", groups, "where")
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 2000


# -- the verb ----------------------------------------------------------------------------------------------------------


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compiler.TARGETS, "gpu", lambda: GpuBackend(interpret=True))  # type: ignore[misc]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    executable = Executable(SMALL, weights(), ReferenceBackend())
    art = tmp_path / "r.art"
    executable.save(art, golden=record(SMALL, ColonnadeSide(executable, ReferenceBackend()), 2))
    words = ["bench", art, "--target", "gpu", "--batch", "2", "--runs", 1, "--out-dir", tmp_path / "out"]
    words += ["--png", tmp_path / "p.png"]
    result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0 and "of the floor" in result.stdout and "GB/s" in result.stdout
    found = benchmark_rows.read(tmp_path / "out")
    assert [(m["case"], m["what"]) for m in found] == [("r.art", "whole"), ("r.art", "columns")]
    assert found[0]["checks"][OURS]["reference"].startswith("golden rows")
    assert (tmp_path / "out" / "gpu_r.art.html").exists() and (tmp_path / "p.png").exists()


def test_without_a_device_the_verb_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = ["bench", golden.load("micro10").model, "--target", "gpu", "--out-dir", tmp_path]
    result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 2 and "the target 'gpu' cannot be used here" in result.stderr
