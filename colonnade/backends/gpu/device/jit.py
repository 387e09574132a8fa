"""The marks of device functions and of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Marks a device function. Here it stays as it is: the module made of its text gets Triton's own `jit`."""
    return function


def kernel(function: F) -> F:
    """Marks a kernel, as `jit` does a device function."""
    return function
