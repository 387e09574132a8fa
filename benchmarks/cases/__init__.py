"""The cases, by name."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.cases import dlrm, micro

CASES: dict[str, Case] = {case.name: case for case in (*micro.CASES, *dlrm.CASES)}
DEFAULT = ("micro10", "micro100", "micro1000", "E10", "E_full_cols", "F_full_cols")
"""Run where no case is named; the others need many gigabytes."""
