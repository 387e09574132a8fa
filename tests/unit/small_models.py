"""Small models for tests of what a user touches: built once a session, two with the same graph and other weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from colonnade.testing.models import ModelSpec, build
from colonnade.testing.models.catalog import Counts, family_columns
from colonnade.testing.models.feeds import spec_feed

SIGNATURE = "columns"


def small(seed: int = 0, *, strings: int = 2) -> ModelSpec:
    """A model with a column or two of every kind and a dense network."""
    columns = tuple(replace(c, rows=min(c.rows, 200)) for c in family_columns(Counts(2, 1, strings, 1, 1), 256))
    return ModelSpec(f"small{strings}", columns, 4, (4,), (8,), seed, extra_outputs=True)


def a_feed(batch: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    return spec_feed(small(), batch, np.random.default_rng(seed))


class Models:
    """SavedModels: `old` and `new` differ in the weights only, `other` is another graph."""

    def __init__(self, folder: Path) -> None:
        self.old = build(small(0), folder / "old")
        self.new = build(small(1), folder / "new")
        self.other = build(small(0, strings=1), folder / "other")


def models() -> Iterator[Models]:
    """A fixture's generator."""
    with TemporaryDirectory() as folder:
        yield Models(Path(folder))
