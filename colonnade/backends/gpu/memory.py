"""What a program takes of a device's memory, and the errors where that is too little.

Units: bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch

from colonnade.errors import OptionError, listed
from colonnade.ir.program import Program
from colonnade.ir.table import Table

RESERVE = 1 << 30
"""Device memory left to requests, the CUDA context and torch."""
MIB = 1 << 20
ELSEWHERE = "compile for the target 'cpu'"
SAYINGS = ("out of memory", "STATUS_ALLOC_FAILED")
"""How CUDA, Triton and cuBLAS say it in errors of no kind of their own."""

Refusal: TypeAlias = Callable[[str], OptionError]
"""The error that a request is refused with, from what could not be had."""


def host_bytes() -> int:
    """The host's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(program: Program, budget: int, in_host: frozenset[str] = frozenset()) -> None:
    """Hold what a program keeps on the device against the memory there is.

    in_host: tables that lie elsewhere.
    Errors: OptionError that lists the tables by size, and the budget for tables that would fit.
    """
    placed = _placed(program, in_host)
    tables = sum(t.bytes for t in placed)
    if tables + _rest(program) > budget:
        raise _too_large(program, placed, budget, budget - _rest(program))


@contextmanager
def uploading(program: Program, device: torch.device, in_host: frozenset[str] = frozenset()) -> Iterator[None]:
    """A context that puts a program's tables and parameters on a device.

    Errors: OptionError as of `check_memory`, where the device has no room for them after all.
    """
    if device.type != "cuda":
        yield
        return
    before = free_memory(device)
    try:
        yield
    except RuntimeError as error:
        if not is_exhausted(error):
            raise
        placed = _placed(program, in_host)
        tables = sum(t.bytes for t in placed)
        # By the count they would have fitted: others took memory meanwhile, or it lies in pieces.
        fits = min(before - _rest(program), tables - tables // 8)
        raise _too_large(program, placed, before, fits) from error


def refusal(program: Program, in_host: frozenset[str] = frozenset()) -> Refusal:
    """What makes the error of a request that the device has no memory for."""
    tables = sum(t.bytes for t in _placed(program, in_host))
    less = (tables - RESERVE) // MIB
    help = "send smaller batches, or fewer at a time"
    if less > 0:
        help += f", or leave more of the tables in host memory (the device holds {mib(tables)} of them): "
        help += f"--gpu-table-budget {less}MiB"
    return lambda got: OptionError("the device has too little memory for a request", got=got, help=help)


def is_exhausted(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, says that the device has no memory left."""
    if error is None:
        return False
    if isinstance(error, torch.OutOfMemoryError) or any(saying in str(error) for saying in SAYINGS):
        return True
    return is_exhausted(error.__cause__)


def said(error: BaseException) -> str:
    """What torch says of it, without its advice."""
    first = str(error).partition("\n")[0]
    return ". ".join(first.split(". ")[:2])


def free_memory(found: torch.device) -> int:
    """What could be allocated on a device now.

    Facts: torch keeps what was freed, such as the tables before a swap; to the driver that is in use.
    """
    free, _ = torch.cuda.mem_get_info(found)
    return int(free) + torch.cuda.memory_reserved(found) - torch.cuda.memory_allocated(found)


def mib(num_bytes: int) -> str:
    """`1,234 MiB`, rounded up."""
    return f"{-(-num_bytes // MIB):,} MiB"


def _too_large(program: Program, placed: Sequence[Table], free: int, fits: int) -> OptionError:
    """fits: bytes of tables that could be held."""
    sized = sorted(placed, key=lambda t: t.bytes, reverse=True)
    tables = sum(t.bytes for t in placed)
    budget = f"leave the largest tables in host memory: --gpu-table-budget {fits // MIB}MiB, or {ELSEWHERE}"
    none = f"no table would fit beside parameters and room for requests: free memory on the device, or {ELSEWHERE}"
    return OptionError(
        "the device has too little memory for the tables",
        got=listed(
            [f"table {t.name!r}: {t.rows:,} rows of {t.embedding_dim} {t.dtype}, {mib(t.bytes)}" for t in sized]
        ),
        want=f"{mib(free)} are free: tables {mib(tables)}, parameters and room for requests {mib(_rest(program))}",
        help=budget if fits >= MIB else none,
    )


def _placed(program: Program, in_host: frozenset[str]) -> list[Table]:
    return [t for t in program.tables if t.name not in in_host]


def _rest(program: Program) -> int:
    """What is not tables."""
    total = RESERVE
    for _, dtype, shape in program.params:
        size = getattr(torch, dtype).itemsize
        for n in shape:
            size *= n
        total += size
    return total
