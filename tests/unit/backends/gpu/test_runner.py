"""The runner on the host: the same staging, lanes and buckets as on a device, and graphs that run the work again."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from colonnade.backends.backend import Columns, layouts
from colonnade.backends.gpu import runner
from colonnade.backends.gpu.graphs import full_precision
from colonnade.backends.gpu.lanes import LARGE_BYTES, MAX_GRAPHS
from colonnade.backends.gpu.padding import Proven
from colonnade.backends.gpu.runner import NUM_LOANS, GpuRunner
from colonnade.core.batch import Layout
from colonnade.core.expr import Field
from colonnade.errors import FeedError, GraphError, IdRangeError, OptionError, ShapeError
from colonnade.executable import Executable
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref, Weights
from tests.unit.backends.gpu import runner_case as rc
from tests.unit.backends.gpu.runner_case import B, Case, FakeColumns, a_feed, dependent, proven


@pytest.mark.parametrize("independent", [proven, dependent])
@pytest.mark.parametrize("replays", [True, False])
def test_answers_of_random_batches(independent: Any, replays: bool) -> None:
    case = Case(independent=independent, replays=replays)
    rng = np.random.default_rng(0)
    sizes = [0, 1, 1, 1, *rng.integers(0, 9, 30).tolist(), 70, 3, 0, 200, 5]
    for k, rows in enumerate(sizes):
        case.check(a_feed(rows, k, longest=int(rng.choice([0, 3, 40]))), packed_in_place=bool(rng.integers(2)))
    if replays:
        assert sum(q.replays for q in case.queues) > 10


def test_a_graph_serves_all_batches_of_its_bucket() -> None:
    case = Case(replays=True)
    for k in range(2):
        case.check(a_feed(6, k))
    (queue,) = case.queues
    assert (queue.captured_works, queue.replays) == (1, 0)
    for rows in (5, 6, 5, 6):
        case.check(a_feed(rows, 7))
    assert (queue.captured_works, queue.replays) == (1, 4)
    assert set(case.columns.capacities) == {6}


def test_without_a_proof_the_exact_batch_runs() -> None:
    case = Case(independent=dependent, replays=True)
    for rows in (5, 6, 5, 5):
        case.check(a_feed(rows))
    assert set(case.columns.capacities) == {5, 6}
    assert case.runner.notes == ("batches are not padded to a few sizes: for the test (everywhere)",)
    refusing = Case(independent=lambda p: Proven("B", refusing=("x = aten.index_select",)))
    assert "refuse" in refusing.runner.notes[0]


def test_an_empty_batch_launches_nothing() -> None:
    case = Case(replays=True)
    for _ in range(3):
        case.check(a_feed(0))
    assert not case.columns.capacities and case.queues[0].captured_works == 0


FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "lists": lambda feed: {name: value.tolist() for name, value in feed.items()},
    "arrow": lambda feed: {name: pa.array(v[:, 0]) if v.shape[1:] == (1,) else v for name, v in feed.items()},
    "half tensors": lambda feed: {**feed, "n": torch.from_numpy(feed["n"])},
}


@pytest.mark.parametrize("form", FORMS)
def test_feeds_of_any_form_are_packed_in_place(form: str) -> None:
    case = Case()
    for rows in (1, 4, 9):
        feed = a_feed(rows)
        want = case.answer(feed)
        for name, value in case.answer(FORMS[form](feed)).items():
            np.testing.assert_array_equal(np.asarray(value), want[name])


def test_numbers_are_packed_where_they_are_copied_from() -> None:
    case = Case()
    room = case.runner.reserve()
    request = case.reader.read(a_feed(5), room)
    host = room.lane.numbers("int64", 6)  # type: ignore[attr-defined]
    assert np.shares_memory(request.packed[0].buffers["int64"], host)
    room.close()


def without(*names: str) -> Program:
    """The program without some inputs and instructions."""
    dense = tuple(line for line in rc.PROGRAM.dense if line.output not in names)
    inputs = tuple(i for i in rc.PROGRAM.inputs if i.name not in names)
    return replace(rc.PROGRAM, inputs=inputs, dense=dense)


def test_strings_are_packed_where_they_are_copied_from() -> None:
    case = Case(program=without("more", "sizes"), replays=True, num_lanes=1)
    rng = np.random.default_rng(3)
    for k, rows in enumerate([5, 5, 5, 0, 1, *rng.integers(0, 20, 20).tolist()]):
        feed = a_feed(rows, k, longest=int(rng.choice([0, 9, 90])))
        del feed["more"]
        case.check(feed)
        if k % 3 == 0 and rows:
            case.check({**feed, "s": feed["s"].tolist()})
    room = case.runner.reserve()
    (packed,) = case.reader.read(feed, room).packed
    block = room.lane._host_in.tensor.numpy()  # type: ignore[attr-defined]
    assert np.shares_memory(packed.string_offsets, block) and np.shares_memory(packed.string_data, block)
    room.close()


def test_two_runs_of_strings_are_joined_elsewhere() -> None:
    program = without("more", "sizes")
    wide = Column("wide", Field("wide"), None, "none", slots=())
    program = replace(program, inputs=(*program.inputs, Input("wide", "string", (B, 2))))
    program = replace(program, columns=(*program.columns, wide))
    case = Case(program=program, replays=True)
    for k, rows in enumerate((4, 4, 4, 1, 0, 7)):
        feed = a_feed(rows, k)
        del feed["more"]
        feed["wide"] = np.array([[b"abc", b"de%d" % i] for i in range(rows)], object).reshape(rows, 2)
        case.check(feed)


def test_torch_in_torch_out() -> None:
    case = Case()
    feed = a_feed(4)
    feed["x"] = torch.from_numpy(feed["x"])
    got = case.answer(feed)
    assert [type(v) for v in got.values()] == [torch.Tensor] * 3 + [np.ndarray, torch.Tensor]
    assert not any(v.is_inference() for v in got.values() if isinstance(v, torch.Tensor))


def test_outputs_belong_to_the_caller() -> None:
    case = Case(replays=True)
    feed = a_feed(5)
    held = [case.answer(feed) for _ in range(5)]
    kept = [{name: np.array(v) for name, v in got.items()} for got in held]
    for rows in (5, 6, 3, 100, 5):
        case.answer(a_feed(rows, 9))
    for got, want in zip(held, kept, strict=True):
        for name, value in got.items():
            np.testing.assert_array_equal(value, want[name])
            value[...] = b"!" if name == "label" else 77
    case.check(feed)


def test_large_outputs_are_kept_while_they_are_held_and_their_memory_comes_back() -> None:
    case = Case(replays=True)
    rows = LARGE_BYTES // (4 * rc.WIDTH) // 50
    feeds = [
        {name: v if name == "more" else np.tile(v, (50, 1)) for name, v in a_feed(rows, k).items()} for k in (0, 1, 2)
    ]
    loans = case.runner._loans
    held = [(feed, case.check(feed)["positive"][1:]) for feed in feeds]
    for feed, value in held:
        np.testing.assert_array_equal(value, rc.expected(feed, case.weights)["positive"][1:])
    assert len(loans._permits) == NUM_LOANS - 3 and not loans._idle
    del held, value
    assert len(loans._permits) == NUM_LOANS and len(loans._idle) == 3
    loans._permits.clear()
    case.check(feeds[0])


def test_ids_outside_their_tables() -> None:
    feed = a_feed(5)
    feed["n"][[1, 3]] = [[-4], [-9]]
    strict = Case(replays=True, num_lanes=1)
    lenient = Case(id_policy="zero", replays=True)
    for _ in range(4):
        strict.check(a_feed(5))
        with pytest.raises(IdRangeError, match=r"-4, -9"):
            strict.answer(feed)
        assert lenient.runner.run(lenient.request(feed)).zeroed == 2
        assert lenient.runner.run(lenient.request(a_feed(5))).zeroed == 0


def test_sizes_that_must_be_equal_are_compared_in_every_request() -> None:
    case = Case(replays=True, num_lanes=1)
    for _ in range(3):
        case.check(a_feed(4))
        with pytest.raises(ShapeError, match="node 'more'"):
            case.answer({**a_feed(4), "more": np.zeros(2, np.float32)})


def test_a_lane_comes_back_after_any_error() -> None:
    case = Case(num_lanes=1)
    for _ in range(3):
        with pytest.raises(FeedError):
            case.answer({})
    lane = case.runner._lanes.take()
    lane.queue.run = lambda work: (_ for _ in ()).throw(RuntimeError("lost"))  # type: ignore[method-assign]
    case.runner._lanes.give(lane)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="lost"):
            case.answer(a_feed(2))
    del lane.queue.run
    case.check(a_feed(2))


@pytest.mark.parametrize("replays", [True, False])
def test_many_threads_and_few_lanes(replays: bool) -> None:
    case = Case(replays=replays, num_lanes=2)
    right: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for k in range(15):
            case.check(a_feed(int(rng.integers(0, 20)), 100 * seed + k))
            right.append(k)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 6 * 15
    assert 1 <= case.runner._lanes.made <= 2


def test_memory_does_not_grow_with_requests() -> None:
    case = Case(replays=True, num_lanes=1)
    rng = np.random.default_rng(1)
    feeds = [a_feed(rows) for rows in range(25)]
    case.check(a_feed(24, longest=50))
    (queue,) = case.queues
    for feed in 2 * feeds:
        case.answer(feed)
    allocated, captured = queue.allocated, queue.captured_works
    for rows in rng.integers(1, 25, 300):
        case.answer(feeds[rows])
    assert (queue.allocated, queue.captured_works) == (allocated, captured)


def test_a_lane_keeps_a_bounded_number_of_graphs() -> None:
    case = Case(independent=dependent, num_lanes=1)
    for rows in range(MAX_GRAPHS + 20, 0, -1):
        case.answer(a_feed(rows))
    lane = case.runner._lanes.take()
    assert len(lane._prepared) == MAX_GRAPHS
    case.runner._lanes.give(lane)


def test_what_cannot_be_captured_runs_without_a_graph_and_says_so() -> None:
    program = replace(
        rc.PROGRAM,
        dense=(
            *rc.PROGRAM.dense,
            Instruction("places", "aten.nonzero.default", (Ref("scale"),)),
        ),
        outputs=(*rc.PROGRAM.outputs, Output("places", Ref("places"), "int64", (B, 2))),
    )
    case = Case(program=program, independent=dependent, replays=True)
    for rows in (3, 5, 3, 3, 3):
        feed = a_feed(rows, rows)
        feed["scale"][:2] = 0
        got = case.answer(feed)
        np.testing.assert_array_equal(got["places"], np.argwhere(feed["scale"]))
    assert case.queues[0].captured_works == 0
    assert any("without a CUDA graph: places = aten.nonzero" in note for note in case.runner.notes)


def test_a_capture_that_fails_is_not_tried_again_and_said() -> None:
    case = Case(replays=True, num_lanes=1)
    case.check(a_feed(4))

    def refused(work: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    case.queues[0].captured = refused  # type: ignore[method-assign]
    for _ in range(4):
        case.check(a_feed(4))
    assert case.runner.notes == ("requests run without a CUDA graph: operation not permitted when stream is capturing",)


def test_a_capture_without_memory_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RUNS_BEFORE_ANOTHER", 5)
    case = Case(replays=True, num_lanes=1)
    case.check(a_feed(4))
    (queue,) = case.queues
    captured, tried = queue.captured, 0

    def full(work: Any) -> Any:
        nonlocal tried
        tried += 1
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB")

    queue.captured = full  # type: ignore[method-assign]
    for _ in range(4):
        case.check(a_feed(4))
    assert tried == 1
    (note,) = case.runner.notes
    assert "batches of up to 4 rows run without a CUDA graph" in note and "too little memory" in note
    queue.captured = captured  # type: ignore[method-assign]
    for _ in range(3):
        case.check(a_feed(3))
    assert queue.captured_works == 1  # another bucket has its own
    for _ in range(4):
        case.check(a_feed(4))
    assert queue.captured_works == 2 and queue.replays > 0 and case.runner.notes == ()


@pytest.mark.parametrize("part", ["columns", "dense"])
def test_no_memory_for_a_request(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(num_lanes=1)
    case.check(a_feed(4))

    def full(*args: Any, **options: Any) -> Any:
        error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has 1 GiB")
        raise error if part == "columns" else RuntimeError("CUBLAS_STATUS_ALLOC_FAILED in the test")

    where = case.columns if part == "columns" else case.runner._dense._steps[0]
    monkeypatch.setattr(type(where), "launch" if part == "columns" else "args", full)
    for _ in range(2):
        with pytest.raises(OptionError, match="too little memory for a request") as caught:
            case.answer(a_feed(7))
        assert caught.value.got.startswith("7 rows: CU") and "smaller batches" in caught.value.help
    monkeypatch.undo()
    case.check(a_feed(7))


def test_indices_of_a_request_are_checked_on_the_host() -> None:
    """A device cannot refuse an index: the process could never use it again."""
    program = replace(
        rc.PROGRAM,
        inputs=(*rc.PROGRAM.inputs, Input("at", "int64", (rc.T,))),
        dense=(*rc.PROGRAM.dense, Instruction("taken", "aten.index_select.default", (Ref("score"), 0, Ref("at")))),
        outputs=(*rc.PROGRAM.outputs, Output("taken", Ref("taken"), "float32", (rc.T, 2))),
    )
    case = Case(program=program, replays=True, num_lanes=1)
    large = LARGE_BYTES // (4 * rc.WIDTH) // 50
    for rows in (3, 4, 3, 3, 3):
        feed = a_feed(rows, rows)
        if rows == 4:
            feed = {n: v if n == "more" else np.tile(v, (large, 1)) for n, v in feed.items()}
        feed["at"] = np.array([2, 0, 2])
        got, want = case.answer(feed), rc.expected(feed, case.weights)
        for name in ("score", "positive", "scale", "bias"):
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(got["label"], want["label"])
        np.testing.assert_array_equal(got["taken"], got["score"][[2, 0, 2]])
        kept = {name: np.array(value) for name, value in got.items()}
        with pytest.raises(GraphError, match="index"):
            other = {name: value for name, value in feed.items() if name != "x"}
            case.answer({**other, "x": feed["x"] + 1, "at": np.array([0, len(feed["n"]), 0])})
        for name, value in got.items():
            np.testing.assert_array_equal(value, kept[name])
    assert "the dense rest runs on the host: taken = aten.index_select.default" in case.runner.notes[-1]
    assert case.queues[0].replays > 0


def test_an_integer_divided_by_zero_is_refused() -> None:
    """A device would give some number."""
    program = replace(
        rc.PROGRAM,
        inputs=(*rc.PROGRAM.inputs, Input("by", "int64", (rc.T,))),
        dense=(*rc.PROGRAM.dense, Instruction("rest", "aten.remainder.Tensor", (Ref("by"), Ref("by")))),
        outputs=(*rc.PROGRAM.outputs, Output("rest", Ref("rest"), "int64", (rc.T,))),
    )
    case = Case(program=program)
    np.testing.assert_array_equal(case.answer({**a_feed(2), "by": np.array([1, 2, 3])})["rest"], [0, 0, 0])
    with pytest.raises(GraphError, match="ZeroDivision"):
        case.answer({**a_feed(2), "by": np.array([1, 0, 3])})
    assert "the dense rest runs on the host: rest = aten.remainder.Tensor" in case.runner.notes[-1]


def test_bfloat16_comes_as_float32_where_numpy_is_wanted() -> None:
    program = replace(
        rc.PROGRAM,
        dense=(
            *rc.PROGRAM.dense,
            Instruction("short", "aten._to_copy.default", (Ref("score"),), (("dtype", "bfloat16"),)),
        ),
        outputs=(*rc.PROGRAM.outputs, Output("short", Ref("short"), "bfloat16", (B, 2))),
    )
    case = Case(program=program, replays=True)
    for _ in range(4):
        got = case.answer(a_feed(5))
        want = torch.from_numpy(got["score"]).bfloat16()
        assert got["short"].dtype == np.float32
        np.testing.assert_array_equal(got["short"], want.float().numpy())
    feed = {name: v if v.dtype == object else torch.from_numpy(v) for name, v in a_feed(5).items()}
    assert case.answer(feed)["short"].dtype == torch.bfloat16


def test_profile_names_every_part() -> None:
    case = Case()
    found = case.runner.profile(case.request(a_feed(6)))
    assert list(found) == ["stage", "copy in", "columns", "dense", "copy out"]
    assert all(value >= 0 for value in found.values())


def test_profile_rounds_no_product_either() -> None:
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    found = []

    class Watched(FakeColumns):
        def launch(self, *args: Any) -> None:
            found.append(setting.fp32_precision)

    setting.fp32_precision = "tf32"
    try:
        case = Case()
        case.runner._columns = (Watched(case.layouts[0]),)
        case.runner.profile(case.request(a_feed(6)))
        assert found and set(found) == {"ieee"} and setting.fp32_precision == "tf32"
    finally:
        setting.fp32_precision = before


def new_interface() -> None:
    torch.backends.cuda.matmul.fp32_precision = "tf32"


def old_interface() -> None:
    torch.set_float32_matmul_precision("medium")


@pytest.mark.parametrize("allow", [new_interface, old_interface])
def test_full_precision_gives_the_setting_back_with_the_last_thread(allow: Callable[[], None]) -> None:
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    allow()
    try:
        for _ in range(2):
            with full_precision():
                with full_precision():
                    assert not setting.allow_tf32
                assert setting.fp32_precision == "ieee"
            assert setting.fp32_precision == "tf32"
        if allow is old_interface:
            assert torch.get_float32_matmul_precision() == "medium"
    finally:
        if allow is old_interface:
            torch.set_float32_matmul_precision("highest")
        setting.fp32_precision = before
    with full_precision():
        assert setting.fp32_precision == before


class FakeBackend:
    """The runner behind the backend's interface."""

    name = "fake"

    def compile(self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int) -> Columns:
        raise AssertionError("not asked for")

    def prepare(self, program: Program, weights: Weights, layouts: Any, *, id_policy: str, threads: int) -> GpuRunner:
        columns = [FakeColumns(layout) for layout in layouts]
        return GpuRunner(program, weights, columns, device=torch.device("cpu"), id_policy=id_policy)

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        return ()

    def import_compiled(self, folder: Path) -> bool:
        return True


def test_an_executable_of_it() -> None:
    executable = Executable(rc.PROGRAM, rc.weights(), FakeBackend())
    for rows in (3, 0, 7):
        got, want = executable(a_feed(rows)), rc.expected(a_feed(rows), rc.weights())
        np.testing.assert_allclose(got["score"], want["score"], rtol=1e-4, atol=1e-4)
    executable.swap(rc.weights(1))
    want = rc.expected(a_feed(4), rc.weights(1))
    np.testing.assert_allclose(executable(a_feed(4))["score"], want["score"], rtol=1e-4, atol=1e-4)
    report = executable.report()
    assert list(report.seconds) == ["feed", "stage", "device", "give"] and (report.calls, report.rows) == (4, 14)


def test_a_runner_goes_with_the_last_reference_to_it() -> None:
    case = Case()
    case.check(a_feed(3))
    runner = weakref.ref(case.runner)
    gc.disable()  # a swap is not to wait for the collector: tables would lie on the device twice
    try:
        del case.runner
        assert runner() is None
    finally:
        gc.enable()


def test_two_layouts_count_apart() -> None:
    other = rc.dims.symbol("C")
    twice = Program(
        inputs=(*(Input(n, d, (B, w)) for n, d, w in rc.FIELDS), Input("m", "int64", (other, 1))),
        tables=(),
        columns=(*rc.PROGRAM.columns, Column("m", Field("m"), None, "none", slots=(Slot("o", 0, 1),))),
        buffers=(Buffer("buf", B, rc.WIDTH), Buffer("o", other, 1)),
        dense=(),
        outputs=(Output("buf", Ref("buf"), "float32", (B, rc.WIDTH)), Output("o", Ref("o"), "float32", (other, 1))),
    )
    plans = layouts(twice)
    columns = [FakeColumns(x) if "x" in x.places else Single(x) for x in plans]
    runner = GpuRunner(twice, Weights({}, {}, {}), columns, device=torch.device("cpu"), id_policy="zero")
    reader = rc.FeedReader(twice, plans, runner.dense_inputs)
    for rows, others in ((3, 5), (0, 2), (4, 0), (3, 5)):
        feed = {n: a_feed(rows)[n] for n, *_ in rc.FIELDS} | {"m": np.arange(others)[:, None] - 1}
        room = runner.reserve()
        outcome = runner.run(reader.read(feed, room), room)
        room.close()
        np.testing.assert_array_equal(outcome.outputs["o"], feed["m"])
        np.testing.assert_array_equal(outcome.outputs["buf"][:, :2], feed["x"])
        assert outcome.zeroed == (others > 0)


class Single(FakeColumns):
    """One field of numbers."""

    def launch(self, sources: Any, capacity: int, outputs: Any, status: torch.Tensor, tiles: int = 0) -> None:
        assert status.data_ptr() % 8 == 0  # an atomic addition wants it
        values = sources.buffers["int64"][:capacity]
        status += (values < 0).sum()
        outputs["o"][:, 0] = values
