"""Benchmarks: cases that are checked before they are timed, beside TensorFlow in one process."""

from __future__ import annotations

import os

# Before anything imports TensorFlow: it logs its build options at import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
