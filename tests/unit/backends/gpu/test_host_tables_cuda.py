"""Tables in host memory beside a device: it holds fewer bytes, and graphs answer what the reference does."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.gpu.mapped import mapped
from colonnade.backends.gpu.placement import BUS, WAYS
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.errors import IdRangeError
from colonnade.executable import Executable
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Output, Program, Ref, Weights
from colonnade.ir.table import Table

pytestmark = pytest.mark.gpu

B = dims.symbol("B")
ROWS, DIM = 1 << 20, 16
LARGE, SMALL = Table("large", ROWS, DIM), Table("small", 100, DIM)
PROGRAM = Program(
    (Input("a", "int64", (B, 3)), Input("b", "int64", (B, 1)), Input("x", "float32", (B, 2))),
    (LARGE, SMALL),
    (
        Column("a", Field("a"), "large", "mean", slots=(Slot("buf", 0, DIM),)),
        Column("b", Field("b"), "small", "sum", slots=(Slot("buf", DIM, DIM),)),
        Column("x", Field("x"), None, "none", slots=(Slot("buf", 2 * DIM, 2),)),
    ),
    (Buffer("buf", B, 2 * DIM + 2),),
    (),
    (Output("buf", Ref("buf"), "float32", (B, 2 * DIM + 2)),),
)


def weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights({t.name: rng.standard_normal((t.rows, DIM), np.float32) for t in PROGRAM.tables}, {}, {})


def feed(rows: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng([rows, seed])
    return {
        "a": rng.integers(0, ROWS, (rows, 3)),
        "b": rng.integers(0, 100, (rows, 1)),
        "x": rng.standard_normal((rows, 2), np.float32),
    }


def allocated() -> int:
    gc.collect()
    torch.cuda.synchronize()
    return int(torch.cuda.memory_allocated())


@pytest.mark.parametrize("way", WAYS)
def test_the_device_holds_fewer_bytes(way: str) -> None:
    given = weights(0)
    before = allocated()
    found = Executable(PROGRAM, given, GpuBackend(table_budget=SMALL.bytes, host_tables=way))
    assert allocated() - before < LARGE.bytes // 4
    del found
    whole = Executable(PROGRAM, given, GpuBackend())
    assert allocated() - before > LARGE.bytes
    assert {t.place for t in whole.report().tables} == {"device"}


@pytest.mark.parametrize("way", WAYS)
def test_graphs_and_swaps(way: str) -> None:
    given = [weights(0), weights(1)]
    found = Executable(PROGRAM, given[0], GpuBackend(table_budget=SMALL.bytes, host_tables=way), threads=2)
    for held in (given[0], given[1], given[0]):
        found.swap(held)
        plain = Executable(PROGRAM, held, ReferenceBackend())
        for k, rows in enumerate((5, 6, 5, 5, 6, 0, 1, 1, 1, 300, 300, 300)):
            request = feed(rows, k)
            np.testing.assert_allclose(found(request)["buf"], plain(request)["buf"], rtol=1e-5, atol=1e-6)
    bad = feed(6)
    bad["a"][3, 1] = ROWS
    for _ in range(3):
        with pytest.raises(IdRangeError, match=f"id {ROWS} in batch row 3"):
            found(bad)


def test_threads_with_columns_on_the_host() -> None:
    given = weights(0)
    found = Executable(PROGRAM, given, GpuBackend(table_budget=0))
    plain = Executable(PROGRAM, given, ReferenceBackend())
    right: list[int] = []

    def work(seed: int) -> None:
        for k in range(30):
            request = feed(1 + (seed + k) % 9, 100 * seed + k)
            np.testing.assert_allclose(found(request)["buf"], plain(request)["buf"], rtol=1e-5, atol=1e-6)
            right.append(k)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 6 * 30


def test_mapped_memory_can_be_pinned_again_after_it_is_freed() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    values = np.arange(1 << 20, dtype=np.float32)
    for _ in range(20):
        held = mapped(values, device)
        assert held.data_ptr() % 4096 == 0 and held.numpy().tobytes() == values.tobytes()
        del held


def test_rows_over_the_bus_have_the_bits_of_those_on_the_device() -> None:
    given = weights(0)
    there, here = (Executable(PROGRAM, given, GpuBackend(table_budget=b, host_tables=BUS)) for b in (0, None))
    for rows in (1, 40, 40, 40):
        assert there(feed(rows))["buf"].tobytes() == here(feed(rows))["buf"].tobytes()
