"""A cell of the table: how its model is built, and what does not work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
NAN, INF = float("nan"), float("inf")

FLOATS = (NAN, -1.0, -0.0, 0.0, 0.5, 1.0, 9.99, 10.0, 1e30, -INF, INF)
"""Values that requests are made of."""
IDS = (-1, 0, 3, 7, 9, -7)
ANY_INTEGERS = (*IDS, 10, 2**31, 2**62, -(2**63))
WORDS = (b"", b"a", b"b", b"yy", b"w" * 64, b"nothing", b"\xff")
LISTS = (b"", b";", b"a;b", b"yy;;nothing", b"a;a;a;b")

OK = "ok"
NOTIMPL, NOTYET, NEVER = "notimpl", "notyet", "never"
"""Could be done and is not; is meant to be done; is not to be done."""


@dataclass(frozen=True)
class Given:
    """An input: its dtype, values a row (0: one, in a tensor of rank 1), and the values that requests are made of.

    form: dense, open (dense rows of a width that a request tells), sparse, ragged, or nested: ragged
    of two levels, each value an inner row that may lack it.
    """

    name: str
    dtype: str
    width: int
    pool: tuple[Any, ...]
    form: str = "dense"

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        """Random values."""
        shape = (rows, self.width) if self.width else (rows,)
        values = np.empty(len(self.pool), object if self.dtype == "string" else self.dtype)
        values[:] = self.pool
        found: Array = values[rng.integers(len(values), size=shape)]
        return found

    def feed(self, name: str, rows: int, rng: np.random.Generator) -> dict[str, Array]:
        """A request's keys of this input: one array, or the parts of a sparse or ragged one that lacks some values."""
        values = self.draw(rows, rng)
        if self.form in ("dense", "open"):
            return {name: values}
        kept = rng.random(values.shape) < 0.7
        if self.form == "sparse":
            shape = np.array(values.shape, np.int64)
            return {name: values[kept], f"{name}.indices": np.argwhere(kept), f"{name}.dense_shape": shape}
        if self.form == "nested":
            outer = np.arange(0, values.size + 1, max(1, self.width))
            inner = np.concatenate([[0], np.cumsum(kept.reshape(-1))])
            return {name: values[kept], f"{name}.row_splits": outer, f"{name}.row_splits_1": inner}
        return {name: values[kept], f"{name}.row_splits": np.concatenate([[0], np.cumsum(kept.sum(1))])}


def floats(width: int = 1, name: str = "x") -> Given:
    """float32."""
    return Given(name, "float32", width, FLOATS)


def ids(width: int = 1, name: str = "x", pool: Sequence[int] = IDS) -> Given:
    """int64."""
    return Given(name, "int64", width, tuple(pool))


def words(width: int = 1, name: str = "x") -> Given:
    """Strings."""
    return Given(name, "string", width, WORDS)


def lists(name: str = "x") -> Given:
    """Strings of several words, each."""
    return Given(name, "string", 0, LISTS)


@dataclass(frozen=True)
class Gap:
    """Why a cell is not `ok`."""

    status: str
    reason: str


@dataclass(frozen=True)
class Cell:
    """A kind of column in one style.

    build(tf, tensors by input name, a name of its own) -> the output.
    gap: why no backend has it.   gaps: why single backends have not.
    """

    kind: str
    style: str
    inputs: tuple[Given, ...]
    build: Callable[[Any, dict[str, Any], str], Any]
    gap: Gap | None = None
    gaps: tuple[tuple[str, Gap], ...] = ()

    def of(self, backend: str) -> Gap | None:
        """What stands against it on a backend."""
        return self.gap or dict(self.gaps).get(backend)
