"""Every backend, on random programs of columns, against the oracle of `colonnade.testing.check_backend`."""

from __future__ import annotations

import threading
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import ops
from colonnade.backends.backend import Backend, layouts
from colonnade.backends.feed import FeedReader
from colonnade.backends.reference import ReferenceBackend
from colonnade.core.quantize import NARROW
from colonnade.testing.check_backend import check_case
from colonnade.testing.strategies import Case, cases, column_ops, known_ops

BACKENDS = ["reference", "cpu"] if find_spec("colonnade.backends.cpu.backend") else ["reference"]

TABLE_DTYPES = ("float32", *NARROW)


@pytest.fixture(params=[*BACKENDS, pytest.param("gpu", marks=pytest.mark.gpu)], scope="module")
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "reference":
        return ReferenceBackend()
    if request.param == "gpu":
        from colonnade.backends.gpu.backend import GpuBackend

        return GpuBackend()
    from colonnade.backends.cpu.backend import CpuBackend

    return CpuBackend()


def test_every_column_op_is_drawn() -> None:
    assert known_ops() == ops.load().keys()


@given(st.data())
def test_drawn_ops_are_of_their_name(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(known_ops())))
    assert data.draw(column_ops(name)).name == name


@settings(max_examples=30)
@given(case=cases())
def test_policy_error(backend: Backend, case: Case) -> None:
    check_case(backend, case, id_policy="error")


@settings(max_examples=30)
@given(case=cases())
def test_policy_zero(backend: Backend, case: Case) -> None:
    check_case(backend, case, id_policy="zero")


@settings(max_examples=20)
@given(case=cases(ids_in_range=True, max_columns=12), threads=st.integers(1, 4))
def test_several_threads(backend: Backend, case: Case, threads: int) -> None:
    check_case(backend, case, threads=threads)


@settings(max_examples=5)
@given(case=cases(ids_in_range=True, batches=(515,), widths=(1, 2), max_columns=1))
def test_large_batches(backend: Backend, case: Case) -> None:
    check_case(backend, case, threads=2)


@settings(max_examples=5)
@given(case=cases(batches=(1, 2), widths=(511, 700), max_columns=1))
def test_long_rows(backend: Backend, case: Case) -> None:
    check_case(backend, case, id_policy="zero")


@settings(max_examples=30)
@given(case=cases(ragged=True, max_columns=3), policy=st.sampled_from(("error", "zero")), threads=st.integers(1, 3))
def test_ragged_fields(backend: Backend, case: Case, policy: str, threads: int) -> None:
    check_case(backend, case, id_policy=policy, threads=threads)


@settings(max_examples=40)
@given(
    case=st.one_of(
        cases(table_dtypes=TABLE_DTYPES),
        cases(table_dtypes=NARROW, ragged=True, max_columns=3),
        cases(table_dtypes=NARROW, batches=(1, 2), widths=(511, 700), max_columns=1),
    ),
    policy=st.sampled_from(("error", "zero")),
    threads=st.integers(1, 3),
)
def test_table_dtypes(backend: Backend, case: Case, policy: str, threads: int) -> None:
    check_case(backend, case, id_policy=policy, threads=threads)


@settings(max_examples=10)
@given(case=cases(ids_in_range=True, max_columns=6))
def test_the_same_bits_each_run_and_from_each_thread(backend: Backend, case: Case) -> None:
    """Concurrent callers of one compiled object do not disturb each other."""
    (layout, *_) = layouts(case.program)
    packed = FeedReader(case.program, layouts(case.program)).read(case.feed).packed[0]
    columns = backend.compile(case.program, case.weights, layout, id_policy="error", threads=1)

    def run() -> dict[str, bytes]:
        out = {b.name: np.zeros((case.rows, b.width), np.float32) for b in case.program.buffers}
        columns.run(packed, out)
        return {name: values.tobytes() for name, values in out.items()}

    want = run()
    got: list[dict[str, bytes]] = []
    callers = [threading.Thread(target=lambda: got.extend(run() for _ in range(3))) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert got == [want] * 9
