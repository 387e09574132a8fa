"""Kernels compiled for GPUs that need not be there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from colonnade.backends.gpu.kinds.writer import BUFFERS
from colonnade.backends.gpu.schedule import OPTIONS, Schedule
from colonnade.backends.gpu.source import load

CAPABILITIES = (80, 90, 100)
_POINTERS = {
    **dict.fromkeys(("header", "units", "status", "offsets"), "*i64"),
    "text": "*u64",
    "work": "*fp32",
    "arrivals": "*i32",
}
_SOURCES = {"all_f32": "*fp32", "all_f64": "*fp64", "all_i32": "*i32", "all_i64": "*i64"}


def signature_of(schedule: Schedule) -> dict[str, str]:
    """The kernel's arguments and their types."""
    kinds = {**_POINTERS, **{name: _SOURCES[name] for name in BUFFERS.values()}}
    names = schedule.arguments
    return {name: kinds.get(name, "*fp32" if name.startswith("out") else "i32") for name in names}


def compiled(schedule: Schedule, capability: int, folder: Path) -> Any:
    """The kernel of a schedule compiled for a compute capability, such as 90. Needs no GPU."""
    return compiled_kernel(schedule.text, "columns", signature_of(schedule), OPTIONS, capability, folder)


def compiled_kernel(
    text: str, name: str, signature: Mapping[str, str], options: Mapping[str, Any], capability: int, folder: Path
) -> Any:
    """The kernel of that name in a module's text, the same way. Facts: all pointers are multiples of 16."""
    kernel = getattr(load(text, folder, interpret=False), name)
    aligned = {(k,): [["tt.divisibility", 16]] for k, kind in enumerate(signature.values()) if kind.startswith("*")}
    source = ASTSource(kernel, dict(signature), {}, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(options))
