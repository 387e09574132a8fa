"""Rows of different lengths: all values in one array, and where each row begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.errors import FeedError, listed

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Ragged:
    """Row r is `values[offsets[r] : offsets[r + 1]]`. Never written to.

    Shapes: values [N, ...], offsets [B + 1].   Facts: offsets are int64, begin at 0, are nondecreasing, end at N.
    Errors: FeedError that lists every broken rule.
    """

    values: Array
    offsets: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        problems = _problems(self.values, self.offsets)
        if problems:
            raise FeedError(
                "the offsets do not fit the values",
                got=listed(problems),
                want="offsets that begin at 0, never decrease and end at the number of values",
                help="offsets have one entry more than there are rows",
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of values of each row."""
        return np.diff(self.offsets)

    @staticmethod
    def from_rows(rows: Sequence[Sequence[Any]], dtype: npt.DTypeLike) -> Ragged:
        """From one sequence a row."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return Ragged(np.array([value for row in rows for value in row], dtype=dtype), offsets)

    def to_rows(self) -> list[list[Any]]:
        """One list a row."""
        return [self.values[a:b].tolist() for a, b in zip(self.offsets, self.offsets[1:], strict=False)]


def _problems(values: Array, offsets: Array) -> list[str]:
    if offsets.dtype != np.int64 or offsets.ndim != 1 or len(offsets) == 0:
        return [f"offsets are {offsets.dtype}{list(offsets.shape)}, want int64[B + 1]"]
    if values.ndim == 0:
        return ["values are a scalar"]
    problems = []
    if offsets[0] != 0:
        problems.append(f"offsets[0] is {offsets[0]}, want 0")
    drops = np.flatnonzero(np.diff(offsets) < 0)
    if len(drops):
        at = int(drops[0])
        problems.append(f"offsets[{at + 1}] is {offsets[at + 1]}, less than offsets[{at}] = {offsets[at]}")
    if offsets[-1] != len(values):
        problems.append(f"offsets[{len(offsets) - 1}] is {offsets[-1]}, but there are {len(values)} values")
    return problems
