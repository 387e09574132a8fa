"""Tables in host memory: with any of them there, answers, counts and errors are those without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.backends.backend import layouts
from colonnade.backends.cpu import columns as cpu
from colonnade.backends.feed import FeedReader, Request
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.gpu.host_tables import PlacedColumns, Pooling, divide
from colonnade.backends.gpu.mapped import mapped
from colonnade.backends.gpu.placement import BUS, POOLED
from colonnade.backends.gpu.staging import Staged
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.batch import Layout, Packed
from colonnade.core.expr import Apply, Field
from colonnade.core.quantize import NARROW
from colonnade.errors import IdRangeError
from colonnade.executable import Executable
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref, Weights
from colonnade.ir.table import Table
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.testing.check_backend import check_case
from colonnade.testing.strategies import Case, cases

BATCHES = (0, 1, 3, 17)
TABLE_DTYPES = ("float32", *NARROW)


def budgets(case: Case) -> tuple[int, ...]:
    """All tables on the host, some, none."""
    sizes = sum(t.bytes for t in case.program.tables)
    return 0, max((t.bytes for t in case.program.tables), default=0) // 2, sizes


MOST_ELEMENTS = 300
"""The interpreter takes some 10 ms a tile of a ragged field."""


def is_small(case: Case) -> bool:
    return all(value.size <= MOST_ELEMENTS for value in case.feed.values())


DENSE = cases(max_columns=3, batches=BATCHES, table_dtypes=TABLE_DTYPES)
RAGGED = cases(max_columns=2, batches=BATCHES, table_dtypes=TABLE_DTYPES, ragged=True).filter(is_small)


@settings(max_examples=12)
@given(case=DENSE, which=st.integers(0, 2), policy=st.sampled_from(("error", "zero")))
def test_pooled_on_the_host(case: Case, which: int, policy: str) -> None:
    backend = GpuBackend(interpret=True, table_budget=budgets(case)[which], host_tables=POOLED)
    check_case(backend, case, id_policy=policy, threads=1 + which)


@settings(max_examples=12)
@given(case=RAGGED, policy=st.sampled_from(("error", "zero")))
def test_ragged_fields_pooled_on_the_host(case: Case, policy: str) -> None:
    check_case(GpuBackend(interpret=True, table_budget=0, host_tables=POOLED), case, id_policy=policy)


@settings(max_examples=5)
@given(case=st.one_of(DENSE, RAGGED), which=st.integers(0, 1))
def test_rows_read_over_the_bus_are_those_on_the_device(case: Case, which: int) -> None:
    plans = layouts(case.program)
    request = FeedReader(case.program, plans).read(case.feed)
    backend = GpuBackend(interpret=True, table_budget=budgets(case)[which], host_tables=BUS)
    answers = [columns_of(b, case, plans, request) for b in (backend, GpuBackend(interpret=True))]
    assert answers[0] == answers[1]


def columns_of(backend: GpuBackend, case: Case, plans: Sequence[Layout], request: Request) -> tuple[int, list[bytes]]:
    out = {b.name: np.zeros((case.rows, b.width), np.float32) for b in case.program.buffers}
    zeroed = 0
    for layout, packed in zip(plans, request.packed, strict=True):
        columns = backend.compile(case.program, case.weights, layout, id_policy="zero", threads=1)
        zeroed += columns.run(packed, out)
    return zeroed, [value.tobytes() for value in out.values()]


B, N = dims.symbol("B"), dims.symbol("N")
HUGE = 1000


def program() -> Program:
    """A huge table of two columns, one ragged and in two slots; a table of strings; a numeric column; a dense rest."""
    words = Apply(Mod(50), Apply(HashBytes("farm"), Field("word")))
    columns = (
        Column("one", Field("one"), "huge", "mean", slots=(Slot("buf", 0, 8),), source="tower/one"),
        Column("many", Field("many"), "huge", "sqrtn", slots=(Slot("buf", 8, 8), Slot("other", 0, 8))),
        Column("word", words, "words", "sum", ids_proven=True, slots=(Slot("buf", 16, 4),)),
        Column("few", Field("few"), "small", "none", slots=(Slot("buf", 20, 6),)),
        Column("x", Field("x"), None, "none", slots=(Slot("buf", 26, 2),)),
        Column("tail", Field("tail"), "small", "sum", slots=(Slot("other", 8, 3),)),
    )
    inputs = (
        Input("one", "int64", (B, 1)),
        Input("many", "int64", (N,), "", "ends"),
        Input("ends", "int64", (dims.add(B, 1),)),
        Input("word", "string", (B, 1)),
        Input("few", "int32", (B, 2)),
        Input("x", "float32", (B, 2)),
        Input("tail", "int64", (B, 3)),
    )
    return Program(
        inputs,
        (Table("huge", HUGE, 8), Table("words", 50, 4), Table("small", 7, 3)),
        columns,
        (Buffer("buf", B, 28), Buffer("other", B, 11)),
        (Instruction("score", "aten.addmm.default", (Ref("b"), Ref("buf"), Ref("w"))),),
        (
            Output("buf", Ref("buf"), "float32", (B, 28)),
            Output("other", Ref("other"), "float32", (B, 11)),
            Output("score", Ref("score"), "float32", (B, 2)),
        ),
        (("w", "float32", (28, 2)), ("b", "float32", (2,))),
    )


PROGRAM = program()
BUDGET = 50 * 16 + 7 * 12


def weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    tables = {t.name: rng.standard_normal((t.rows, t.embedding_dim), np.float32) for t in PROGRAM.tables}
    params = {n: torch.from_numpy(rng.standard_normal(shape, np.float32)) for n, _, shape in PROGRAM.params}
    return Weights(tables, params, {})


def feed(rows: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng([rows, seed])
    ends = np.cumsum([0, *rng.integers(0, 5, rows)])
    return {
        "one": rng.integers(0, HUGE, (rows, 1)),
        "many": rng.integers(0, HUGE, ends[-1]),
        "ends": ends,
        "word": np.array([[b"w%d" % k] for k in rng.integers(0, 99, rows)], object).reshape(rows, 1),
        "few": rng.integers(0, 7, (rows, 2), np.int32),
        "x": rng.standard_normal((rows, 2), np.float32),
        "tail": rng.integers(0, 7, (rows, 3)),
    }


def executable(budget: int | None, way: str = POOLED, **options: Any) -> Executable:
    return Executable(PROGRAM, weights(0), GpuBackend(interpret=True, table_budget=budget, host_tables=way), **options)


def same(got: Executable, request: dict[str, Any], given: Weights) -> None:
    want = Executable(PROGRAM, given, ReferenceBackend())(request)
    for name, value in got(request).items():
        np.testing.assert_allclose(value, want[name], rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(("way", "budget"), [(POOLED, 0), (POOLED, BUDGET), (POOLED, None), (BUS, BUDGET)])
def test_whole_requests(way: str, budget: int | None) -> None:
    found = executable(budget, way)
    for k, rows in enumerate((5, 0, 1, 3)):
        same(found, feed(rows, k), weights(0))
    found.swap(weights(1))
    same(found, feed(4), weights(1))
    host = {t.name for t in found.report().tables if t.place == "host"}
    assert host == {0: {"huge", "words", "small"}, BUDGET: {"huge"}, None: set()}[budget]
    parts = list(found.report().seconds)
    is_pooled = way == POOLED and budget is not None
    assert parts == ["feed", "stage", *(["host columns"] if is_pooled else []), "device", "give"]


def test_forms_of_a_feed() -> None:
    found, request = executable(BUDGET), feed(5)
    want = found(request)
    for given_ in (
        {name: value.tolist() for name, value in request.items()},
        {n: v if n == "word" else torch.from_numpy(v) for n, v in request.items()},
    ):
        for name, value in found(given_).items():
            np.testing.assert_array_equal(np.asarray(value), want[name])


def two_layouts() -> Program:
    """The same, with a batch of its own for one more column of each table."""
    other = dims.symbol("C")
    more = tuple(
        Column(f"more {t}", Field("more"), t, "sum", slots=(Slot("sums", offset, width),))
        for t, offset, width in (("huge", 0, 8), ("small", 8, 3))
    )
    return replace(
        PROGRAM,
        inputs=(*PROGRAM.inputs, Input("more", "int64", (other, 2))),
        columns=(*PROGRAM.columns, *more),
        buffers=(*PROGRAM.buffers, Buffer("sums", other, 11)),
        outputs=(*PROGRAM.outputs, Output("sums", Ref("sums"), "float32", (other, 11))),
    )


@pytest.mark.parametrize("budget", [0, BUDGET])
def test_two_layouts(budget: int) -> None:
    twice, given_ = two_layouts(), weights(0)
    found = Executable(
        twice, given_, GpuBackend(interpret=True, table_budget=budget, host_tables=POOLED), id_policy="zero"
    )
    plain = Executable(twice, given_, ReferenceBackend(), id_policy="zero")
    for rows, others in ((2, 5), (5, 0), (0, 3)):
        request = feed(rows) | {"more": np.arange(2 * others).reshape(others, 2) - 1}
        want = plain(request)
        for name, value in found(request).items():
            np.testing.assert_allclose(value, want[name], rtol=1e-4, atol=1e-4, err_msg=name)
    assert found.report().zeroed_ids == plain.report().zeroed_ids > 0


def test_the_device_gets_no_fields_that_only_the_host_reads() -> None:
    (layout,) = layouts(PROGRAM)
    some = divide(PROGRAM, layout, frozenset({"huge"}))
    assert some is not None and not some.layout.ragged
    assert some.layout.widths == {"string": 1, "int32": 2, "int64": 4, "float32": 2}
    assert [c.name for c in some.device] == ["word", "few", "x", "tail"]
    assert some.slots == {"one": PROGRAM.columns[0].slots, "many": PROGRAM.columns[1].slots}
    every = divide(PROGRAM, layout, frozenset({"huge", "words", "small"}))
    assert every is not None and every.layout.widths == {"float32": 2}
    assert divide(PROGRAM, layout, frozenset()) is None


@pytest.mark.parametrize("budget", [0, BUDGET])
def test_one_error_names_ids_outside_tables_wherever_they_lie(budget: int | None) -> None:
    request = feed(4)
    request["one"][2] = HUGE + 1
    request["few"][1, 1] = -1
    with pytest.raises(IdRangeError) as plain:
        executable(None)(request)
    found = executable(budget)
    with pytest.raises(IdRangeError) as placed:
        found(request)
    assert str(placed.value) == str(plain.value) and "'one' <- tower/one" in str(plain.value)
    same(found, feed(4), weights(0))
    zero = executable(budget, id_policy="zero")
    zero(request)
    assert zero.report().zeroed_ids == 2


def test_columns_alone_are_those_of_both_halves() -> None:
    plans = layouts(PROGRAM)
    backend = GpuBackend(interpret=True, table_budget=BUDGET, host_tables=POOLED)
    (packed,) = FeedReader(PROGRAM, plans).read(feed(3)).packed
    columns = backend.compile(PROGRAM, weights(0), plans[0], id_policy="error", threads=1)
    assert isinstance(columns, PlacedColumns) and columns.layout is plans[0]
    out = {b.name: np.full((3, b.width), np.nan, np.float32) for b in PROGRAM.buffers}
    assert columns.run(packed, out) == 0 and not any(np.isnan(v).any() for v in out.values())


def test_profile_tells_the_host_apart() -> None:
    backend = GpuBackend(interpret=True, table_budget=0, host_tables=POOLED)
    plans = layouts(PROGRAM)
    runner = backend.prepare(PROGRAM, weights(0), plans, id_policy="error", threads=1)
    found = runner.profile(FeedReader(PROGRAM, plans, runner.dense_inputs).read(feed(3)))
    assert list(found) == ["stage", "host columns", "copy in", "columns", "copy of host columns", "dense", "copy out"]


def test_the_hosts_threads_are_let_go_where_a_request_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PARALLEL_NANOSECONDS", 0)
    found = executable(BUDGET, threads=2)
    for _ in range(3):
        with monkeypatch.context() as broken, pytest.raises(MemoryError):
            broken.setattr(Staged, "write", lambda *_: _fail())
            found(feed(4))
        same(found, feed(4), weights(0))


def _fail() -> None:
    raise MemoryError


class _Begun:
    """A part that fails, or gives its number."""

    def __init__(self, ended: list[int], number: int, fails: bool) -> None:
        self.ended, self.number, self.fails = ended, number, fails

    def begin(self, *_: Any) -> Any:
        return self

    def end(self) -> int:
        self.ended.append(self.number)
        if self.fails:
            _fail()
        return self.number


def test_where_several_layouts_fail_all_are_ended() -> None:
    pooling, ended = Pooling(3), list[int]()
    for number in range(3):
        host: Any = _Begun(ended, number, number > 0)
        pooling.begin(number, host, Packed(0, {}, np.zeros(0, np.uint8), np.zeros(1, np.int64)), {})
    with pytest.raises(MemoryError):
        pooling.end()
    assert ended == [2, 1, 0] and pooling.outside == [0, 0, 0]
    pooling.end()
    assert len(ended) == 3


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5000, 3)])
def test_mapped_memory_holds_the_same_bytes(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    held = mapped(values, torch.device("cpu"))
    assert held.numpy()[: values.nbytes].tobytes() == values.tobytes() and held.data_ptr() % 4096 == 0
