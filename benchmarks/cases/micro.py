"""Bucketized columns alone: 10, 100 and 1,000 of them, 100 boundaries and 101 rows of 8 each."""

from __future__ import annotations

from benchmarks.case import Case

CASES = (
    Case("micro10", "micro10", (1, 32, 256, 2048), quick=True),
    Case("micro100", "micro100", (1, 32, 256, 2048), quick=True),
    Case("micro1000", "micro1000", (1, 32, 256, 2048)),
)
