"""Functions that work on the host's memory by address, whatever torch is told to do to what it calls."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import torch

P = ParamSpec("P")
R = TypeVar("R")
COMPILER = "torch._dynamo"


def _has_modes() -> bool:
    """Whether something is done to torch's calls; a default device is such."""
    return bool(torch._C._len_torch_function_stack())


def uncompiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which `torch.compile` does not look into, and whose tensors lie on the CPU unless it says another.

    Facts: torch's decorator would import its compiler, which takes most of a second: so it is used once that is there.
    """
    known: list[Callable[P, R]] = []

    @functools.wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        if not _has_modes():
            return call(*args, **options)
        with torch.device("cpu"):
            return call(*args, **options)

    def call(*args: P.args, **options: P.kwargs) -> R:
        compiler: Any = sys.modules.get(COMPILER)
        if not hasattr(compiler, "disable"):  # none, or one that is being imported
            return function(*args, **options)
        if not known:
            known.append(cast(Callable[P, R], compiler.disable(function)))
        return known[0](*args, **options)

    return run
