"""Kernels around device functions, run by Triton's interpreter or compiled for GPUs that need not be there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from colonnade.backends.gpu.source import load, module_text

Words = torch.Tensor


def interpreted(used: Sequence[str], kernel: str, folder: Path) -> ModuleType:
    """The module of device files and a kernel's text, run on CPU tensors."""
    return load(module_text(used, kernel), folder, interpret=True)


def compiled(used: Sequence[str], kernel: str, signature: dict[str, str], folder: Path) -> dict[int, Any]:
    """The kernel named `kernel` for each compute capability; constants: BLOCK = 128."""
    module = load(module_text(used, kernel), folder, interpret=False)
    return {
        capability: triton.compile(
            ASTSource(module.kernel, {**signature, "BLOCK": "constexpr"}, {"BLOCK": 128}),
            target=GPUTarget("cuda", capability, 32),
        )
        for capability in (80, 90, 100)
    }


def words_of(data: bytes) -> Words:
    """Bytes as 8-byte words, with 16 bytes to spare that are not zero."""
    padded = data + b"\xa5" * (16 + -len(data) % 8)
    return torch.from_numpy(np.frombuffer(padded, np.int64).copy()).view(torch.uint64)


def strings_of(strings: Sequence[bytes], gap: int = 0) -> tuple[Words, torch.Tensor, torch.Tensor]:
    """(words, starts, lengths) of strings that lie `gap` bytes apart."""
    lengths = torch.tensor([len(s) for s in strings], dtype=torch.int64)
    starts = torch.cumsum(lengths + gap, 0) - lengths
    return words_of(b"".join(b"\xff" * gap + s for s in strings)), starts, lengths


def check_compiled(kernels: Mapping[int, Any]) -> None:
    """Nothing is called and nothing spills."""
    for kernel in kernels.values():
        assert not re.search(r"^\s*(\.local\b|call\b)", kernel.asm["ptx"], re.MULTILINE)
