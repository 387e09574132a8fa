"""The cpu backend against the reference on random columns, and against exact answers where it matters."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.cpu import CpuBackend
from colonnade.backends.cpu import columns as cpu_columns
from colonnade.backends.pool import POOL
from colonnade.core.batch import Layout, Packed, Place
from colonnade.core.expr import Apply, Field
from colonnade.errors import GraphError, IdRangeError, OptionError, ShapeError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split
from tests.unit.backends.cpu.columns import NUM_BOUNDARIES, B, Case, Maker, boundaries, check, compare, floats, integers

ROWS = (0, 1, 2, 7, 63, 64, 65, 130, 1000)


@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from(ROWS[:-1]), st.sampled_from((5, 40, 300)))
def test_random_columns_equal_the_reference(seed: int, num_columns: int, rows: int, longest: int) -> None:
    maker = Maker(seed, longest)
    for _ in range(num_columns):
        maker.column()
    check(maker.case(rows), pad=seed % 3)


def test_many_rows_and_threads_equal_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_columns, "PARALLEL_NANOSECONDS", 0)
    for seed in range(3):
        maker = Maker(seed)
        for _ in range(8):
            maker.column()
        check(maker.case(1000), threads=3)


def one(column: Column, table: np.ndarray, dtype: str, width: int, rows: int, values: object) -> Case:
    """A case of one column on one field."""
    slot = column.slots[0].width
    program = Program((), (Table("t", *table.shape),), (column,), (Buffer("o", B, slot),), (), ())
    layout = Layout(B, {"x": Place(dtype, 0, width)}, {dtype: width})
    buffers = {} if dtype == "string" else {dtype: np.asarray(values).astype(dtype)}
    return Case(program, Weights({"t": table}, {}, {}), layout, buffers, list(values) if not buffers else [], rows)  # type: ignore[call-overload]


def run(case: Case, policy: str = "error", threads: int = 1) -> np.ndarray:
    out = case.outputs()
    compiled = CpuBackend().compile(case.program, case.weights, case.layout, id_policy=policy, threads=threads)
    compiled.run(case.packed(), out)
    return out["o"]


@pytest.mark.parametrize("count", NUM_BOUNDARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_every_tree_height_counts_exactly(count: int, dtype: str) -> None:
    rng = np.random.default_rng(count)
    bounds = boundaries(rng, count)
    n = 600
    x = floats(rng, n).astype(dtype) if dtype.startswith("float") else integers(rng, n, dtype)
    if count and dtype.startswith("float"):
        at = rng.choice(bounds.array, n)
        near = np.nextafter(at, rng.choice(np.array([-np.inf, np.inf], np.float32), n))
        x = np.concatenate([x, at.astype(dtype), near.astype(dtype)])
    table = np.arange(count + 1, dtype=np.float32).reshape(-1, 1)
    for flush in (False, True):
        op = Bucketize(bounds, flush)
        column = Column("c", Apply(op, Field("x")), "t", slots=(Slot("o", 0, 1),))
        got = run(one(column, table, dtype, 1, len(x), x))[:, 0]
        assert np.array_equal(got, op.reference(torch.from_numpy(x.copy())).numpy())


def test_single_rows_are_copied_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, (50, 19), dtype=np.uint32)
    bits[3] = 0x7FA00001  # signalling NaN with a payload
    table = bits.view(np.float32)
    ids = rng.integers(0, 50, 200)
    for pooling in ("sum", "mean", "sqrtn", "max", "none"):
        column = Column("c", Field("x"), "t", pooling, slots=(Slot("o", 0, 19),))
        got = run(one(column, table, "int64", 1, 200, ids))
        assert np.array_equal(got.view(np.uint32), bits[ids])


def tensorflow_pool(rows: np.ndarray, pooling: str) -> np.ndarray:
    """TensorFlow's order of summation, in numpy float32."""
    n = len(rows)
    lead = n if n < 10 else {0: 8, 1: 9}.get(n % 8, n % 8)
    total = rows[0].copy()
    for row in rows[1:lead]:
        total = total + row
    for at in range(lead, n, 8):
        part = rows[at].copy()
        for row in rows[at + 1 : at + 8]:
            part = part + row
        total = total + part
    divisor = np.float32(n) if pooling == "mean" else np.sqrt(np.float32(n))
    if pooling == "sum" or n == 1:
        return total
    return total * (np.float32(1) / divisor) if n < 10 else total / divisor


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn"])
def test_sums_are_tensorflows_bit_by_bit(pooling: str) -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(97, 21)).astype(np.float32)
    for n in (*range(1, 30), 100, 255, 511, 512, 513, 520, 1031, 5000):
        ids = rng.integers(0, 97, (2, n))
        column = Column("c", Field("x"), "t", pooling, slots=(Slot("o", 0, 21),))
        got = run(one(column, table, "int64", n, 2, ids.reshape(-1)))
        want = np.stack([tensorflow_pool(table[i], pooling) for i in ids])
        assert np.array_equal(got.view(np.uint32), want.view(np.uint32)), n


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn", "max"])
@pytest.mark.parametrize("tokens", [511, 512, 513, 3000, 100_000])
def test_long_rows_of_tokens(pooling: str, tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    table = rng.normal(size=(31, 9)).astype(np.float32)
    split = Apply(Split(b","), Field("x"))
    texts = [b"", b",".join(b"%d" % v for v in rng.integers(0, 10**6, tokens)), b"a,b", b",,,"]
    filters = (Apply(NotEqual(b""), split),)
    ids = Apply(Mod(31), Apply(HashBytes(), split))
    column = Column("c", ids, "t", pooling, filters, default_row=7, slots=(Slot("o", 0, 9),))
    check(one(column, table, "string", 1, 4, texts))


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn", "max"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_wider_than_a_tile(pooling: str, weighted: bool) -> None:
    rng = np.random.default_rng(5)
    table = rng.normal(size=(500, 5)).astype(np.float32)
    width = 1100
    weights = Field("x") if weighted else None
    column = Column("c", Field("x"), "t", pooling, (Apply(AtLeast(20), Field("x")),), weights, slots=(Slot("o", 0, 5),))
    ids = rng.integers(0, 500, (3, width))
    ids[1] = 3  # all dropped
    ids[2, 4:] = 0  # few kept
    check(one(column, table, "int64", width, 3, ids.reshape(-1)))


def test_filters_with_bounds_beyond_int64() -> None:
    table = np.ones((3, 1), np.float32)
    for op, kept in (
        (AtLeast(2**70), 0),
        (AtLeast(-(2**70)), 1),
        (AtMost(2**70), 1),
        (AtMost(-(2**70)), 0),
        (NotEqual(2**70), 1),
    ):
        column = Column("c", Field("x"), "t", "sum", (Apply(op, Field("x")),), slots=(Slot("o", 0, 1),))
        assert run(one(column, table, "int64", 1, 2, [0, 2])).tolist() == [[kept], [kept]]


def test_ids_outside_are_listed_by_column_row_and_value() -> None:
    table = np.ones((4, 3), np.float32)
    columns = tuple(
        Column(f"c{k}", Field(f"x{k}"), "t", slots=(Slot("o", 3 * k, 3),), source=f"node/{k}") for k in range(30)
    )
    program = Program((), (Table("t", 4, 3),), columns, (Buffer("o", B, 90),), (), ())
    layout = Layout(B, {f"x{k}": Place("int64", k, 1) for k in range(30)}, {"int64": 30})
    ids = np.zeros((30, 5), np.int64)
    ids[1:26, 3:] = 4
    ids[7, 2] = -1
    packed = Packed(5, {"int64": ids.reshape(-1)}, np.zeros(0, np.uint8), np.zeros(1, np.int64))
    weights = Weights({"t": table}, {}, {})
    for threads in (1, 2):
        compiled = CpuBackend().compile(program, weights, layout, id_policy="error", threads=threads)
        with pytest.raises(IdRangeError) as caught:
            compiled.run(packed, {"o": np.zeros((5, 90), np.float32)})
        text = str(caught.value)
        assert "column 'c1' <- node/1" in text and "id 4 in batch row 3" in text
        assert "id -1 in batch row 2" in text and "0 <= id < 4" in text and "5 more" in text
        # The next call is clean.
        good = Packed(5, {"int64": np.zeros(150, np.int64)}, packed.string_data, packed.string_offsets)
        assert compiled.run(good, {"o": np.zeros((5, 90), np.float32)}) == 0
    lenient = CpuBackend().compile(program, weights, layout, id_policy="zero", threads=1)
    out = np.full((5, 90), np.nan, np.float32)
    assert lenient.run(packed, {"o": out}) == 51
    assert out[2, 21:24].tolist() == [0, 0, 0] and out[0].all()


def test_what_cannot_run_is_refused() -> None:
    table = np.ones((4, 3), np.float32)
    slots = (Slot("o", 0, 3),)
    tokens = Apply(Mod(4), Apply(HashBytes(), Apply(Split(b","), Field("x"))))
    bad = [
        (Column("c", Apply(HashBytes(), Field("x")), "t", slots=(Slot("o", 0, 2),)), "string", ShapeError),
        (Column("c", Field("x"), "t", slots=slots), "float32", GraphError),
        (Column("c", Field("x"), None, slots=slots), "string", GraphError),
        (Column("c", Field("x"), "t", default_row=4, slots=slots), "int64", GraphError),
        (Column("c", tokens, "t", "none", slots=slots), "string", GraphError),
    ]
    for column, dtype, error in bad:
        case = one(column, table, dtype, 1, 1, [b"a"] if dtype == "string" else [0])
        with pytest.raises(error):
            run(case)
    with pytest.raises(OptionError):
        run(one(Column("c", Field("x"), "t", slots=slots), table, "int64", 1, 1, [0]), policy="ignore")


def _wide(rows: int) -> Case:
    maker = Maker(11)
    for _ in range(40):
        maker.column()
    return maker.case(rows)


def test_callers_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_columns, "PARALLEL_NANOSECONDS", 0)
    case = _wide(257)
    compiled = CpuBackend().compile(case.program, case.weights, case.layout, id_policy="zero", threads=2)
    want = case.outputs()
    compiled.run(case.packed(), want)
    failures: list[AssertionError] = []

    def call() -> None:
        try:
            for _ in range(25):
                got = case.outputs()
                compiled.run(case.packed(), got)
                compare(case, got, want)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_calls_in_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_columns, "PARALLEL_NANOSECONDS", 0)
    case = _wide(257)
    compiled = CpuBackend().compile(case.program, case.weights, case.layout, id_policy="zero", threads=2)
    want = case.outputs()
    zeroed = compiled.run(case.packed(), want)
    for _ in range(10):
        outs = [case.outputs() for _ in range(3)]
        packed = [case.packed() for _ in outs]
        begun = [compiled.begin(p, out) for p, out in zip(packed, outs[:2], strict=False)]
        assert compiled.run(packed[2], outs[2]) == zeroed  # the helpers are the first call's
        assert [call.end() for call in begun if call is not None] == [zeroed, zeroed]
        for out in outs:
            compare(case, out, want)
    assert compiled.begin(_wide(0).packed(), _wide(0).outputs()) is None


def test_what_a_call_in_two_parts_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_columns, "PARALLEL_NANOSECONDS", 0)
    slots = (Slot("o", 0, 3),)
    case = one(Column("c", Field("x"), "t", slots=slots), np.ones((4, 3), np.float32), "int64", 1, 300, [0] * 299 + [4])
    compiled = CpuBackend().compile(case.program, case.weights, case.layout, id_policy="error", threads=2)
    good = replace(case.packed(), buffers={"int64": np.zeros(300, np.int64)})
    for _ in range(3):
        with pytest.raises(ShapeError):
            compiled.begin(case.packed(), {"o": np.zeros((299, 3), np.float32)})
        begun = compiled.begin(case.packed(), case.outputs())
        assert begun is not None
        with pytest.raises(IdRangeError, match="id 4 in batch row 299"):
            begun.end()
        assert compiled.run(good, case.outputs()) == 0


# Python warns of a fork beside threads: that it works is what is tested.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_runs_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_columns, "PARALLEL_NANOSECONDS", 0)
    case = _wide(100)
    compiled = CpuBackend().compile(case.program, case.weights, case.layout, id_policy="zero", threads=2)
    want = case.outputs()
    compiled.run(case.packed(), want)
    assert POOL.helpers(1, 0) >= 1
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for _ in range(3):
                got = case.outputs()
                compiled.run(case.packed(), got)
                compare(case, got, want)
            POOL.end()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    got = case.outputs()
    compiled.run(case.packed(), got)
    compare(case, got, want)
