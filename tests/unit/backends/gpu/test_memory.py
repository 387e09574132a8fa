"""What a device's memory holds is said before and after the attempt, with the budget for tables that would fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from colonnade.backends.gpu import memory
from colonnade.errors import GraphError, OptionError
from colonnade.ir.program import Program
from colonnade.ir.table import Table

GIB = 1 << 30
PROGRAM = Program((), (Table("small", 10, 4), Table("big", 1 << 24, 64)), (), (), (), (), (("w", "float32", (256, 4)),))
CUDA = torch.device("cuda", 0)


def give(value: Any) -> Callable[..., Any]:
    return lambda *args: value


def refused(budget: int, in_host: frozenset[str] = frozenset()) -> OptionError:
    with pytest.raises(OptionError) as caught:
        memory.check_memory(PROGRAM, budget, in_host)
    return caught.value


def test_tables_that_do_not_fit() -> None:
    memory.check_memory(PROGRAM, 8 * GIB)
    error = refused(3 * GIB)
    first, second = error.got.splitlines()
    assert "'big'" in first and "4,096 MiB" in first and "'small'" in second
    assert "--gpu-table-budget 2047MiB" in error.help
    memory.check_memory(PROGRAM, 3 * GIB, frozenset({"big"}))
    error = refused(GIB, frozenset({"big"}))
    assert "'small'" in error.got and "'big'" not in error.got


@pytest.mark.parametrize("budget", [0, GIB // 2, GIB, GIB + (1 << 19)])
def test_a_budget_that_helps_nothing_is_not_proposed(budget: int) -> None:
    help = refused(budget).help
    assert "--gpu-table-budget" not in help and "no table would fit" in help and "'cpu'" in help


def test_memory_that_torch_keeps_can_be_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", give((3 * GIB, 140 * GIB)))
    monkeypatch.setattr(torch.cuda, "memory_reserved", give(70 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_allocated", give(10 * GIB))
    assert memory.free_memory(CUDA) == 63 * GIB


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("Triton Error [CUDA]: out of memory")]
)
def test_an_upload_that_fails_after_all(error: RuntimeError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", give(6 * GIB))
    with pytest.raises(OptionError) as caught, memory.uploading(PROGRAM, CUDA):
        raise error
    assert "'big'" in caught.value.got and caught.value.__cause__ is error
    assert "6,144 MiB are free" in caught.value.want and "--gpu-table-budget 3584MiB" in caught.value.help
    with pytest.raises(RuntimeError, match="other"), memory.uploading(PROGRAM, CUDA):
        raise RuntimeError("other")
    with pytest.raises(RuntimeError, match="out of memory"), memory.uploading(PROGRAM, torch.device("cpu")):
        raise error


def test_a_request_that_finds_no_memory() -> None:
    error = memory.refusal(PROGRAM)("8 rows")
    assert error.got == "8 rows" and "4,097 MiB" in error.help and "--gpu-table-budget 3072MiB" in error.help
    assert "--gpu-table-budget" not in memory.refusal(PROGRAM, frozenset({"big"}))("8 rows").help


def test_errors_that_say_so_by_their_cause() -> None:
    outer = GraphError("the dense rest refuses the request")
    assert not memory.is_exhausted(outer)
    outer.__cause__ = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")
    assert memory.is_exhausted(outer)


def test_what_torch_says_of_it() -> None:
    text = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139.8 GiB of which\nmore"
    assert memory.said(torch.OutOfMemoryError(text)) == "CUDA out of memory. Tried to allocate 20.00 MiB"
