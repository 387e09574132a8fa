"""The cpu backend: one table-driven engine, compiled once by numba."""

from __future__ import annotations

from colonnade.backends.cpu.backend import CpuBackend, CpuColumns

__all__ = ["CpuBackend", "CpuColumns"]
