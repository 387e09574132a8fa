"""Keras models of preprocessing layers and embeddings of every kind in front of a few dense layers, as exported."""

from __future__ import annotations

from benchmarks.case import Case

CASES = (Case("keras110", "keras110", (1, 32, 256, 1024)),)
