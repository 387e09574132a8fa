"""The cases, by name."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.cases import dlrm, examples, keras, micro

CASES: dict[str, Case] = {case.name: case for case in (*micro.CASES, *dlrm.CASES, *examples.CASES, *keras.CASES)}
DEFAULT = ("micro10", "micro100", "micro1000", "E10", "E_full_cols", "F_full_cols", "examples119", "keras110")
"""Run where no case is named; the others need many gigabytes."""
