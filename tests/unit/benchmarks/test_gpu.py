from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import corun, kernels, micro, ragged, step, throughput, whole
from benchmarks.gpu.clock import Clock
from benchmarks.gpu.ours import ColumnsAlone, Ours, bytes_in, poisoned
from benchmarks.gpu.rows import Check, Refused, append, read, report, table_rows, text_table, timed
from benchmarks.gpu.setting import Case, Setting
from benchmarks.gpu.skeleton import LARGE, MODELS, fill, first, pack, resized, skeleton, unpack
from colonnade import compiler
from colonnade.core.expr import Apply
from colonnade.errors import OptionError, ShapeError
from colonnade.ir.program import Program
from colonnade.ops.mod import Mod
from colonnade.testing import golden
from colonnade.testing.bench import torch_threads
from colonnade.testing.models import named
from colonnade.testing.points import columns_only
from colonnade.testing.rows import Row
from colonnade.testing.timing import Timing
from colonnade.train.optimizers import Adagrad

SETTING = Setting(dry=True, runs=2, seconds=0.02, threads=1, say=lambda what: None)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def tiny() -> Program:
    program, *_ = compiler.lower(golden.load("tiny").model)
    return unpack(pack(program))


@pytest.fixture
def small(tiny: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases of E and F take a tiny model, micro six columns: the whole ones need a second a call."""
    few = first(skeleton("micro1000"), 6)
    for module in (whole, kernels, corun):
        monkeypatch.setattr(module, "skeleton", lambda name, rows=None: resized(tiny, rows or 512))
    monkeypatch.setattr(micro, "skeleton", lambda name: few)


@pytest.mark.parametrize("name", MODELS)
def test_a_skeleton_has_the_columns_and_shapes_of_its_model(name: str) -> None:
    program, spec = skeleton(name), named(MODELS[name])
    rows = {t.name: (t.rows, t.embedding_dim) for t in program.tables}
    got = {c.name: rows[str(c.table)] for c in program.columns}
    assert got == {c.name: (c.rows, c.embedding_dim) for c in spec.columns}
    assert {i.name: i.dtype for i in program.inputs} == {i.name: i.dtype for i in spec.inputs}
    matrices = {shape for _, _, shape in program.params if len(shape) == 2}
    widths = [spec.width + (spec.num_dense if spec.top else 0), *spec.top, *([1] if spec.top else [])]
    assert matrices >= {(out, wide) for wide, out in itertools.pairwise(widths)}


def test_packing_keeps_the_program(tiny: Program) -> None:
    assert unpack(pack(tiny)) == tiny
    with pytest.raises(OptionError, match="micro1000, E, F"):
        skeleton("G")


def test_large_tables_are_resized_with_the_ids_that_reach_them(tiny: Program) -> None:
    program = resized(tiny, 77)
    large = {t.name for t in program.tables if LARGE in t.name}
    assert large and {t.rows for t in program.tables if t.name in large} == {77}
    assert [c for c in program.columns if c.table not in large] == [c for c in tiny.columns if c.table not in large]
    ops = [c.ids.op for c in program.columns if c.table in large and isinstance(c.ids, Apply)]
    assert set(ops) == {Mod(77)} and resized(program, 512) == resized(tiny, 512)
    broken = replace(tiny, tables=tuple(replace(t, rows=t.rows + 1) for t in tiny.tables))
    with pytest.raises(ShapeError, match="no remainders"):
        resized(broken, 77)


def test_weights_fit_and_differ_by_the_seed_alone(tiny: Program) -> None:
    weights, again, other = fill(tiny, 1), fill(tiny, 1), fill(tiny, 2)
    assert weights.misfits(tiny) == []
    for name, rows in weights.tables.items():
        assert np.array_equal(rows, again.tables[name]) and not np.array_equal(rows, other.tables[name])
    assert all(torch.equal(p, again.params[n]) and p.isfinite().all() for n, p in weights.params.items())


def test_the_first_columns_are_a_program_of_their_own() -> None:
    program = first(skeleton("micro1000"), 3)
    assert len(program.columns) == len(program.tables) == len(program.inputs) == 3 and program.buffers[0].width == 24
    columns = ColumnsAlone(program, fill(program), "reference")
    with pytest.raises(ShapeError, match="one batch symbol"):
        ColumnsAlone(replace(program, columns=()), fill(program), "reference")
    bound = columns.bind(micro.random_batch(columns, 5, 0), torch.device("cpu"))
    assert all(b.isnan().all() for b in bound.buffers.values())
    bound.call()
    assert not any(b.isnan().any() for b in bound.buffers.values())


CHECKED: dict[str, tuple[Case, set[str]]] = {
    "micro": (micro.columns_case, {micro.OURS, micro.EAGER, micro.GRAPH}),
    "compile": (micro.compile_case, {micro.OURS, micro.COMPILED, f"{micro.COMPILED}, in a CUDA graph"}),
    "whole": (whole.case("E"), {whole.PACKED, whole.ARRAYS, whole.ARROW, whole.CPU_PACKED, whole.CPU_ARRAYS}),
    "ragged": (ragged.case, {ragged.OURS, ragged.EAGER, ragged.GRAPH}),
    "step": (step.case, {step.OURS, step.FORWARD, step.TORCH}),
    "corun": (corun.case, {"all on the device, dict of arrays", "all on the device, packed"}),
    "kernels": (kernels.case, set()),
    "throughput": (throughput.case, set()),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", CHECKED)
def test_a_dry_run_checks_and_times_every_side(name: str, tmp_path: Path) -> None:
    case, sides = CHECKED[name]
    found = list(case(SETTING))
    assert found and not [f for f in found if isinstance(f, Refused)]
    for row in found:
        assert isinstance(row, Row)
        assert set(row.sides) >= sides and all(c.ok for c in row.checks.values()) and row.checks
        append(tmp_path, row, "abc")
    stored = read(tmp_path)
    assert len(stored) == len(found) and {"machine", "versions", "date", "commit"} <= stored[0].keys()
    page, text = report("title", stored), text_table(table_rows(stored))
    assert all(row.what in page and row.what in text for row in found if isinstance(row, Row))


@pytest.mark.usefixtures("small")
def test_a_red_check_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(self: micro.Micro, ids: torch.Tensor) -> torch.Tensor:
        return torch.cat([t[i] for t, i in zip(self.tables, ids, strict=True)], 1) + 1

    monkeypatch.setattr(micro.Micro, "reference", shifted)
    found = list(micro.columns_case(SETTING))
    rows = [f for f in found if isinstance(f, Row)]
    red = [f for f in found if isinstance(f, Refused)]
    assert rows and len(red) == sum(len(row.checks) for row in rows) and all(not row.sides for row in rows)
    assert "no number, for the check is red" in str(red[0])


def test_columns_that_differ_are_seen(tiny: Program) -> None:
    program = resized(tiny, 512)
    model = _model(program)
    feed = whole.feed_of(model.columns.program, 6)
    bound = model.columns.bind(model.columns.packed(feed), torch.device("cpu"))
    assert whole.checked_columns(model, bound, feed, 6).ok

    def spoiled() -> None:
        bound.call()
        slot = program.columns[-1].slots[0]
        bound.buffers[slot.output][2, slot.offset] += 1e-2

    check = whole.checked_columns(model, replace(bound, call=spoiled), feed, 6)
    assert check.outside == 1 and check.worst == pytest.approx(1e-2, rel=1e-3)


def _model(program: Program) -> whole.Model:
    weights = fill(program)
    ours = Ours(program, weights, "cpu")
    columns = ColumnsAlone(columns_only(program), weights, "cpu")
    scores = Ours(whole.unrounded(program), weights, "cpu")
    return whole.Model("tiny", program, weights, ours, columns, None, scores, scores)


def test_predictions_are_equal_but_near_one_half() -> None:
    scores = {"y": np.array([[0.1], [0.9], [0.5]], np.float32)}
    check = lambda *values: whole.checked_outputs({"y": np.array(values, np.float32).reshape(-1, 1)}, scores)  # noqa: E731
    assert check(0, 1, 0).ok and check(0, 1, 1).ok
    assert check(1, 1, 1).outside == 1 and check(0, np.nan, 0).outside == 1 and check(0, 1, np.nan).outside == 1
    assert not check(0, 1).ok and not Check("nothing", 0, 0).ok
    assert not whole.checked_scores({"y": scores["y"] + np.float32(1e-2)}, scores).ok


def test_a_request_counts_every_byte_that_crosses(tiny: Program) -> None:
    model = _model(resized(tiny, 512))
    feed = whole.feed_of(model.program, 4)
    request = model.ours.request(feed)
    strings = sum(len(s) for v in feed.values() if v.dtype == object for s in v.reshape(-1))
    numbers = sum(v.nbytes for v in feed.values() if v.dtype != object)
    texts = sum(v.size for v in feed.values() if v.dtype == object)
    assert bytes_in(request) == strings + numbers + 8 * (texts + 1)


def test_a_ragged_workload_has_the_ids_of_its_lengths() -> None:
    workload = ragged.Workload.of(ragged.DRY)
    batch = workload.batch(3)
    assert batch.offsets[-1] == len(batch.ids) == batch.lengths.sum() and batch.ids.max() < ragged.DRY.rows
    assert set(workload.feature_tables) == set(range(ragged.DRY.tables))
    assert any((workload.batch(seed).lengths == 0).any() for seed in range(20))
    feed = workload.feed(batch)
    for f in range(ragged.DRY.features):
        ids, offsets = batch.feature(f)
        assert np.array_equal(np.diff(offsets), batch.lengths[f]) and np.array_equal(feed[f"f{f}"].reshape(-1), ids)
    assert {i.name for i in workload.program().inputs} == feed.keys()


def test_a_ragged_sum_that_is_off_is_seen() -> None:
    workload = ragged.Workload.of(ragged.DRY)
    batch = workload.batch(0)
    theirs = ragged._Torch(workload, fill(workload.program()), [batch], torch.device("cpu"))
    theirs.calls()[0]()
    got = theirs.results[0]
    assert theirs.check(0, got).ok
    got[0, 0] = float("nan")
    got[1, 1] += 1e-2
    assert theirs.check(0, got).outside == 2 and not theirs.check(0, got[:1]).ok


def test_a_step_that_is_off_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "Adagrad", lambda rate, eps: Adagrad(1.0003 * rate, eps=eps))
    found = [x for x in step.case(SETTING) if isinstance(x, Refused)]
    assert {x.side for x in found} == {step.OURS, step.FORWARD}


def test_callers_take_turns_and_their_errors_come_out() -> None:
    seen: list[int] = []
    loop = throughput.closed_loop([lambda: seen.append(0), lambda: seen.append(1)], 3, 0.01)
    assert len(loop.latencies) == len(seen) >= 3 and set(seen) == {0, 1} and loop.rate > 0 and loop.p99 > 0

    def broken() -> None:
        raise OptionError("broken")

    with pytest.raises(OptionError, match="broken"):
        throughput.closed_loop([broken], 2, 0.01)


def test_blocks_are_poisoned_and_aligned() -> None:
    block = poisoned(3, 5, torch.device("cpu"))
    assert block.isnan().all() and block.shape == (3, 5) and block.data_ptr() % 64 == 0
    taken = Clock(torch.device("cpu"), 4).graph([lambda: block.fill_(0)])
    assert taken.runs == 4 and 0 < taken.best <= taken.p20 <= taken.p80


def test_a_side_that_cannot_be_timed_costs_no_other_its_number() -> None:
    def fails() -> Timing:
        raise RuntimeError("cannot be captured\nlong")

    good, bad = Check("reference", 4, 0), Check("reference", 4, 1, 0.5)
    time = Clock(torch.device("cpu"), 1).events([lambda: None])
    sides, refused = timed("c", "w", 1, {"a": good, "b": good, "d": bad}, {"a": lambda: time, "b": fails, "d": fails})
    assert sides == {"a": time} and {r.side for r in refused} == {"b", "d"}
    assert any(str(r).endswith("no number: timing failed: cannot be captured") for r in refused)


def test_the_command_needs_a_case_and_a_device_or_dry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        command.main(["nothing"], out=tmp_path)
    assert ended.value.exit_code == command.BROKEN and ", ".join(command.CASES) in capsys.readouterr().err
    with pytest.raises(typer.Exit) as ended:
        command.main(["ragged"], out=tmp_path, dry=True, runs=1, seconds=0.1, threads=1, commit="abc", batch=[4])
    assert ended.value.exit_code == 0
    (path,) = tmp_path.glob("gpu_*.jsonl")
    row = json.loads(path.read_text())
    assert (row["commit"], row["batch"]) == ("abc", 4) and ragged.EAGER in capsys.readouterr().out
    assert (tmp_path / command.PAGE).read_text().startswith("<!doctype html>")
