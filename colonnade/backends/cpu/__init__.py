"""The cpu backend: one table-driven engine, compiled once by numba."""

from __future__ import annotations

from colonnade.backends.cpu.backend import CpuBackend
from colonnade.backends.cpu.columns import CpuColumns

__all__ = ["CpuBackend", "CpuColumns"]
