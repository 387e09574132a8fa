"""Models whose input is serialized Examples: parsing is part of every call."""

from __future__ import annotations

from benchmarks.case import Case

CASES = (Case("examples119", "examples119", (1, 32, 256, 1024)),)
