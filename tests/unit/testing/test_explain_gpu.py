"""`explain --target gpu` on a machine without a GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from colonnade import compiler
from colonnade.backends.gpu import occupancy
from colonnade.backends.gpu.occupancy import Multiprocessor, Occupancy, Resources, resident
from colonnade.cli.app import app
from colonnade.errors import OptionError
from colonnade.executable import Executable
from colonnade.testing import explain_gpu, golden
from tests.unit.testing.test_ragged_requests import PROGRAM, weights


@pytest.fixture(scope="module")
def tiny() -> Executable:
    return compiler.compile(golden.load("tiny").model, "reference", threads=1)


def test_the_parts_of_a_schedule(tiny: Executable) -> None:
    found = explain_gpu.details(tiny.program, tiny.weights)
    assert found["launches_a_request"] == 1 and found["num_columns"] == len(tiny.program.columns) == 42
    assert found["padded"] and found["captured"] and not found["dense_on_host"] and "interpreted" in found["how"]
    (layout,) = found["layouts"]
    assert sum(s["columns"] for s in layout["structures"]) == 42
    assert sum(8 * s["words"] * s["units"] for s in layout["structures"]) == layout["data"]["descriptor_bytes"]
    programs = [b["programs"] for b in layout["batches"]]
    assert programs == sorted(programs) and programs[0] >= sum(s["units"] for s in layout["structures"])
    assert found["tables"]["device_bytes"] == sum(t.bytes for t in tiny.program.tables)
    if not torch.cuda.is_available():
        assert layout["device"] is None and all(b["waves"] is None for b in layout["batches"])


def test_columns_that_differ_in_data_alone_share_code(tiny: Executable) -> None:
    column = next(c for c in tiny.program.columns if c.name == "num_0")
    other = replace(column, name="again", slots=(replace(column.slots[0], output="other", offset=0),))
    buffer = replace(tiny.program.buffers[0], name="other", width=column.slots[0].width)
    wider = replace(tiny.program, columns=(*tiny.program.columns, other), buffers=(*tiny.program.buffers, buffer))
    before = explain_gpu.column_details(tiny.program, tiny.weights, "num_0")
    after = explain_gpu.column_details(wider, tiny.weights, "num_0")
    assert before["shares_ids_with"] == [] and "bucketize(" in before["code"]
    assert before["units"] == after["units"] and "look_up" in after["code"]
    assert explain_gpu.column_details(tiny.program, tiny.weights, "none such") == {}


def test_ragged_columns_are_tiled_by_elements() -> None:
    (layout,) = explain_gpu.details(PROGRAM, weights())["layouts"]
    assert layout["tiled_by_elements"] == 3
    kinds = {s["kind"]: s["of"] for s in layout["structures"]}
    assert kinds == {"tiles": "elements and row ends", "single": "rows"}


def test_the_report_of_a_device(tiny: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Occupancy("a device", Resources(90, 96, 512, 2, 0), 10, 132)
    monkeypatch.setattr(explain_gpu, "occupancy", lambda schedule, device: found)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    (layout,) = explain_gpu.details(tiny.program, tiny.weights)["layouts"]
    assert layout["device"]["registers"] == 96 and layout["device"]["resident_programs"] == 10
    assert layout["batches"][-1]["waves"] == layout["batches"][-1]["programs"] / 1320


# -- registers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "capability", "programs"),
    [
        (32, 0, 2, 90, 32),  # 64 warps fit
        (96, 512, 2, 90, 10),  # 21 warps have registers, in fours 20
        (255, 0, 2, 90, 4),
        (40, 0, 4, 80, 12),  # 1,280 registers a warp: 51, in fours 48
        (32, 60 << 10, 2, 90, 3),
        (16, 0, 1, 86, 16),
        (32, 0, 2, 91, 32),  # as 90
        (32, 0, 2, 75, 32),  # as 80
    ],
)
def test_what_runs_out_first_decides(registers: int, shared: int, warps: int, capability: int, programs: int) -> None:
    assert resident(Resources(capability, registers, shared, warps, 0)) == programs


def test_waves() -> None:
    assert Occupancy("d", Resources(90, 32, 0, 2, 0), 10, 100).waves(2500) == 2.5
    assert all(isinstance(m, Multiprocessor) for m in occupancy.MULTIPROCESSORS.values())


def test_registers_are_read_from_the_compiled_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((columns, _),) = explain_gpu.columns_of(PROGRAM, weights(), "error")
    found = occupancy.resources(columns.schedule, 90)
    assert found.capability == 90 and found.warps == 2 and 16 <= found.registers <= 255
    assert resident(found) >= 1
    monkeypatch.setattr(occupancy, "_dumped", lambda path: "Function other:\n REG:1 STACK:0")
    with pytest.raises(OptionError, match="registers cannot be counted"):
        occupancy.resources(columns.schedule, 90)


@pytest.mark.gpu
def test_the_kernel_on_this_device() -> None:
    ((columns, _),) = explain_gpu.columns_of(PROGRAM, weights(), "error")
    found = occupancy.occupancy(columns.schedule, torch.device("cuda", 0))
    assert found.multiprocessors >= 1 and found.resident >= 1 and found.waves(found.multiprocessors) <= 1
    (layout,) = explain_gpu.details(PROGRAM, weights())["layouts"]
    assert layout["device"]["registers"] == found.resources.registers


# -- the verb ----------------------------------------------------------------------------------------------------------


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_the_verb_says_it_in_three_forms(tmp_path: Path) -> None:
    model = golden.load("micro10").model
    shown = call("explain", model, "--target", "gpu")
    assert shown.exit_code == 0 and "launches a request" in shown.stdout and "interpreted backend" in shown.stdout
    page = tmp_path / "e.html"
    found = call("explain", model, "--target", "gpu", "--json", "--html", page)
    gpu = json.loads(found.stdout)["gpu"]
    assert gpu["layouts"][0]["structures"][0]["units"] == 10
    assert "bucketize" in page.read_text() and "device functions" in page.read_text()
    one = call("explain", model, "--target", "gpu", "-c", "num_3")
    assert "structure 0 (single)" in one.stdout and "tl.load" in one.stdout


def test_other_targets_have_nothing_to_explain() -> None:
    result = call("explain", golden.load("micro10").model, "--target", "cpu")
    assert result.exit_code == 2 and "nothing to explain of this target" in result.stderr


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("colonnade.testing.explain_gpu")
    monkeypatch.setitem(sys.modules, "colonnade.testing.explain_gpu", None)  # as an import that it needs would fail
    result = call("explain", golden.load("micro10").model, "--target", "gpu")
    assert result.exit_code == 2 and "colonnade[gpu]" in result.stderr
