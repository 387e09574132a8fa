"""Test models: what they consist of, how to make them, and what to feed them."""

from __future__ import annotations

from colonnade.testing.models.build import build
from colonnade.testing.models.cache import cached
from colonnade.testing.models.catalog import micro, model_e, model_f, named, varied
from colonnade.testing.models.spec import ColumnSpec, ModelSpec, TensorSpec

__all__ = [
    "ColumnSpec",
    "ModelSpec",
    "TensorSpec",
    "build",
    "cached",
    "micro",
    "model_e",
    "model_f",
    "named",
    "varied",
]
