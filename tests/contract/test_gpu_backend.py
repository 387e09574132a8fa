"""The gpu backend by Triton's interpreter, on small programs, and its kernels compiled for GPUs that are not there.

The contract suite itself runs on a device (`test_backends.py`); the interpreter takes some 20 ms a program of a launch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from colonnade.backends.backend import layouts
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.gpu.check import CAPABILITIES, compiled
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
    from colonnade.backends.feed import FeedReader

    (layout, *_) = layouts(case.program)
    packed = FeedReader(case.program, layouts(case.program)).read(case.feed).packed[0]
    columns = GpuBackend(interpret=True).compile(case.program, case.weights, layout, id_policy="error", threads=1)

    def run() -> dict[str, bytes]:
        out = {b.name: np.zeros((case.rows, b.width), np.float32) for b in case.program.buffers}
        columns.run(packed, out)
        return {name: values.tobytes() for name, values in out.items()}

    assert run() == run()
