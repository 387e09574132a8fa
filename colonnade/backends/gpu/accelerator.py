"""Finds the device, and checks beforehand what would fail in the middle of a compilation."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
import warnings
from importlib import metadata
from pathlib import Path

import torch

from colonnade.config import settings
from colonnade.errors import OptionError, listed
from colonnade.ir.program import Program

TRITON = (3, 6)
"""The first version whose interpreter and language hold what the kernels need."""
CAPABILITY = (8, 0)
"""Kernels are compiled for Ampere and later."""
RESERVE = 1 << 30
"""Device memory left to requests, the CUDA context and torch. Units: bytes."""
MIB = 1 << 20
COMPILERS = ("gcc", "clang")
ELSEWHERE = "compile for the target 'cpu'"


def device() -> torch.device:
    """The current CUDA device.

    Errors: OptionError that lists everything that is missing for it.
    """
    problems = [*_device_problems(), *_triton_problems(), *_compiler_problems(settings().c_compiler)]
    if problems:
        raise OptionError(
            "the target 'gpu' cannot be used here",
            got=listed([got for got, _ in problems]),
            want=listed([want for _, want in problems]),
            help=ELSEWHERE,
        )
    return torch.device("cuda", torch.cuda.current_device())


def check_memory(program: Program, budget: int, in_host: frozenset[str] = frozenset()) -> None:
    """Hold what a program keeps on the device against the memory there is. Units: bytes.

    in_host: tables that lie elsewhere.
    Errors: OptionError that lists the tables by size, and the budget for tables that would fit.
    """
    placed = [t for t in program.tables if t.name not in in_host]
    tables = sum(t.bytes for t in placed)
    rest = _params(program) + RESERVE
    if tables + rest <= budget:
        return
    fits = max(budget - rest, 0) // MIB
    sized = sorted(placed, key=lambda t: t.bytes, reverse=True)
    raise OptionError(
        "the device has too little memory for the tables",
        got=listed(
            [f"table {t.name!r}: {t.rows:,} rows of {t.embedding_dim} {t.dtype}, {mib(t.bytes)}" for t in sized]
        ),
        want=f"{mib(budget)}: tables {mib(tables)}, parameters and room for requests {mib(rest)}",
        help=f"leave the largest tables in host memory: --gpu-table-budget {fits}MiB, or {ELSEWHERE}",
    )


def free_memory(found: torch.device) -> int:
    """What could be allocated on a device now. Units: bytes.

    Facts: torch keeps what was freed, such as the tables before a swap; to the driver that is in use.
    """
    free, _ = torch.cuda.mem_get_info(found)
    return int(free) + torch.cuda.memory_reserved(found) - torch.cuda.memory_allocated(found)


def mib(num_bytes: int) -> str:
    """`1,234 MiB`, rounded up."""
    return f"{-(-num_bytes // MIB):,} MiB"


def _params(program: Program) -> int:
    total = 0
    for _, dtype, shape in program.params:
        size = getattr(torch, dtype).itemsize
        for n in shape:
            size *= n
        total += size
    return total


def _device_problems() -> list[tuple[str, str]]:
    if torch.version.cuda is None:
        return [(f"torch {torch.__version__}, built without CUDA", "torch built with CUDA")]
    with warnings.catch_warnings(record=True) as said:  # torch warns where the driver is older than itself
        warnings.simplefilter("always")
        found = torch.cuda.is_available()
    if not found:
        why = f" ({said[0].message})" if said else ""
        return [(f"no CUDA device{why}", "a CUDA device and its driver")]
    major, minor = torch.cuda.get_device_capability()
    if (major, minor) < CAPABILITY:
        name = torch.cuda.get_device_name()
        return [(f"{name} with compute capability {major}.{minor}", f"compute capability {CAPABILITY[0]}.0 or later")]
    return []


def _triton_problems() -> list[tuple[str, str]]:
    want = f"triton {TRITON[0]}.{TRITON[1]} or later"
    if importlib.util.find_spec("triton") is None:
        return [("no triton", want)]
    version = metadata.version("triton")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return [] if numbers >= TRITON else [(f"triton {version}", want)]


def _compiler_problems(compiler: str | None) -> list[tuple[str, str]]:
    """Triton compiles a launcher in C once, against Python's headers; what it makes is kept in its cache."""
    problems = []
    tried = (compiler,) if compiler else COMPILERS
    if not any(shutil.which(name) for name in tried):
        problems.append((f"no C compiler: {', '.join(tried)}", "gcc or clang on PATH, or its path in CC"))
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        problems.append((f"no Python.h in {headers}", "Python's headers (python3-dev)"))
    return problems
