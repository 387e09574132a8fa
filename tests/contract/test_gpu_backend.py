"""The gpu backend by Triton's interpreter, on small programs, and its kernels compiled for GPUs that are not there.

The contract suite itself runs on a device (`test_backends.py`); the interpreter takes some 20 ms a program of a launch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from colonnade.backends.backend import Backend, layouts
from colonnade.backends.cpu.backend import CpuBackend
from colonnade.backends.feed import FeedReader
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.gpu.check import CAPABILITIES, compiled
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.bucketize import Bucketize
from colonnade.testing.check_backend import check_case
from colonnade.testing.strategies import Case, cases

BATCHES = (0, 1, 3, 17)


@settings(max_examples=12)
@given(case=cases(max_columns=3, batches=BATCHES))
def test_policy_error(case: Case) -> None:
    check_case(GpuBackend(interpret=True), case, id_policy="error")


@settings(max_examples=15)
@given(case=cases(max_columns=3, batches=BATCHES))
def test_policy_zero(case: Case) -> None:
    check_case(GpuBackend(interpret=True), case, id_policy="zero")


@settings(max_examples=10)
@given(case=cases(max_columns=2, batches=BATCHES, ragged=True))
def test_ragged_fields(case: Case) -> None:
    check_case(GpuBackend(interpret=True), case, id_policy="zero")


@settings(max_examples=8)
@given(case=cases(max_columns=2, batches=BATCHES, table_dtypes=("float16", "bfloat16", "int8_rowwise")))
def test_table_dtypes(case: Case) -> None:
    check_case(GpuBackend(interpret=True), case, id_policy="zero")


@settings(max_examples=2)
@given(case=cases(max_columns=1, batches=(1, 2), widths=(70, 200)))
def test_long_rows(case: Case) -> None:
    check_case(GpuBackend(interpret=True), case, id_policy="zero")


@settings(max_examples=3)
@given(case=cases(max_columns=1, batches=(129, 300), widths=(1, 2), ids_in_range=True))
def test_several_tiles(case: Case) -> None:
    check_case(GpuBackend(interpret=True), case)


@settings(max_examples=3)
@given(case=cases(max_columns=12, batches=(1,), ids_in_range=True))
def test_kernels_compile_for_every_capability(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    folder = tmp_path_factory.mktemp("kernels")
    (layout, *_) = layouts(case.program)
    columns = GpuBackend(interpret=True).compile(case.program, case.weights, layout, id_policy="zero", threads=1)
    for capability in CAPABILITIES:
        assert "columns" in _ptx(columns.schedule, capability, folder)


def _ptx(schedule: object, capability: int, folder: Path) -> str:
    text: str = compiled(schedule, capability, folder).asm["ptx"]  # type: ignore[arg-type]
    return text


@settings(max_examples=3)
@given(case=cases(max_columns=4, batches=(5,), ids_in_range=True))
def test_the_same_bits_each_run(case: Case) -> None:
    (layout, *_) = layouts(case.program)
    packed = FeedReader(case.program, layouts(case.program)).read(case.feed).packed[0]
    columns = GpuBackend(interpret=True).compile(case.program, case.weights, layout, id_policy="error", threads=1)

    def run() -> dict[str, bytes]:
        out = {b.name: np.zeros((case.rows, b.width), np.float32) for b in case.program.buffers}
        columns.run(packed, out)
        return {name: values.tobytes() for name, values in out.items()}

    assert run() == run()


@pytest.fixture(params=["interpreted", pytest.param("device", marks=pytest.mark.gpu)], scope="module")
def backend(request: pytest.FixtureRequest) -> GpuBackend:
    return GpuBackend(interpret=request.param == "interpreted")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("flush", [False, True])
def test_ids_beside_every_boundary_equal_the_cpus(backend: GpuBackend, dtype: str, flush: bool) -> None:
    """Every boundary, its neighbours of one ulp, and what is no number: exactly the ids of the cpu backend."""
    rng = np.random.default_rng(3)
    corners = [
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        1.17549435e-38,
        -1e-39,
        3.4e38,
        -3.4e38,
        2.0**24,
        2.0**24 + 2,
        2.0**31,
        2.0**63,
    ]
    bounds = np.sort(np.concatenate([30 * rng.standard_normal(80), corners, [0.1] * 3]).astype(np.float32))
    values = around(bounds, dtype)
    batch = dims.symbol("B")
    ids = Apply(Bucketize(Const(bounds), flush), Field("x"))
    column = Column("c", ids, "t", slots=(Slot("out", 0, 1),))
    table = Table("t", len(bounds) + 1, 1)
    program = Program((Input("x", dtype, (batch, 1)),), (table,), (column,), (Buffer("out", batch, 1),), (), ())
    rows = np.arange(table.rows, dtype=np.float32)[:, None]
    weights = Weights({"t": rows}, {}, {})
    got, want = (ids_of(b, program, weights, values) for b in (backend, CpuBackend()))
    np.testing.assert_array_equal(got, want)
    assert len(np.unique(want)) > 30


def around(bounds: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[Any]:
    if dtype.startswith("int"):
        whole = np.clip(np.round(bounds.astype(np.float64)), np.iinfo(dtype).min / 2, np.iinfo(dtype).max / 2)
        near = np.concatenate([np.arange(-90, 90), 2**24 + np.arange(-3, 6), whole.astype(dtype)])
        return near.astype(dtype)[:, None]
    exact = bounds.astype(dtype)
    near = [exact, np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf), [np.nan, np.inf, -np.inf]]
    return np.concatenate(near).astype(dtype)[:, None]


def ids_of(backend: Backend, program: Program, weights: Weights, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    plans = layouts(program)
    packed = FeedReader(program, plans).read({"x": values}).packed[0]
    out = np.full((len(values), 1), np.nan, np.float32)
    backend.compile(program, weights, plans[0], id_policy="error", threads=1).run(packed, {"out": out})
    return out[:, 0]
