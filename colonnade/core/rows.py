"""Rows of differing lengths, read from an index matrix or from splits: checked, and as offsets.

Legend: B rows, N elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.errors import FeedError

Array = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """offsets: B + 1 positions, where each row begins and the last one ends.   width: positions in a row."""

    offsets: Offsets
    width: int

    @property
    def num_rows(self) -> int:
        """B."""
        return len(self.offsets) - 1

    @property
    def num_elements(self) -> int:
        """N."""
        return int(self.offsets[-1])

    def indices(self) -> npt.NDArray[np.int64]:
        """The row of each element and its position in the row. Shapes: [N, 2]."""
        rows = np.repeat(np.arange(self.num_rows), np.diff(self.offsets))
        return np.stack([rows, np.arange(self.num_elements) - self.offsets[rows]], axis=1).astype(np.int64)


MOST_ROWS = 1 << 20
"""How many rows a request may say by a number alone: they cost memory, and the number costs it nothing."""


def rows_of_indices(indices: Array, shape: Array | None, strict: bool = False, most: int = MOST_ROWS) -> Rows:
    """The rows of an index matrix `[N, 2]`.

    shape: the matrix' dense shape; without one the last row is that of the last element.
    strict: whether places within a row must rise.   most: rows, if there are more than elements.
    Errors: FeedError where rows fall, an index lies outside, or there are too many rows.
    """
    rows, places = indices[:, 0], indices[:, 1]
    if strict:
        _check_places(rows, places)
    falls = np.flatnonzero(rows[1:] < rows[:-1])
    if len(falls):
        at = int(falls[0]) + 1
        raise FeedError(
            "the rows of an index matrix fall",
            got=f"row {rows[at]} at element {at} behind row {rows[at - 1]}",
            want="elements in the order of their rows",
            help="sort the elements by their rows (TensorFlow: tf.sparse.reorder)",
        )
    if shape is None:
        num_rows, width = (int(rows[-1]) + 1, int(places.max()) + 1) if len(rows) else (0, 0)
    else:
        num_rows, width = map(int, shape)
    if min(num_rows, width) < 0 and shape is not None:
        raise FeedError("a dense shape is negative", got=f"{[num_rows, width]}", want="two sizes")
    outside = (rows < 0) | (rows >= num_rows) | (places < 0) | (places >= width)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise FeedError(
            "an index lies outside the dense shape",
            got=f"{indices[at].tolist()} at element {at}",
            want=f"within {[num_rows, width]}",
        )
    if num_rows > max(most, len(rows)):
        raise FeedError(
            "more rows than anything else in the request has",
            got=f"{num_rows} rows and {len(rows)} elements",
            want=f"at most {max(most, len(rows))} rows",
            help="give the elements' offsets in their place, or smaller batches",
        )
    return Rows(np.searchsorted(rows, np.arange(num_rows + 1)).astype(np.int64), width)


def _check_places(rows: Array, places: Array) -> None:
    stays = np.flatnonzero((rows[1:] == rows[:-1]) & (places[1:] <= places[:-1]))
    if len(stays):
        at = int(stays[0]) + 1
        raise FeedError(
            "the places within a row of an index matrix do not rise",
            got=f"place {places[at]} at element {at} behind place {places[at - 1]}",
            want="elements in the order of their places, each once",
        )


def falls(ends: Any) -> Any:
    """Where ends are less than those before them, along the last axis. Facts: their differences may wrap."""
    return ends[..., 1:] < ends[..., :-1]


def rows_of_splits(splits: Array, trimmed: bool) -> Rows:
    """The rows of a vector of splits.

    trimmed: rows behind the last one with an element are left out.
    Errors: FeedError where they do not begin at 0, or fall.
    """
    if len(splits) == 0 or splits[0] != 0:
        raise FeedError("splits do not begin at 0", got=str(splits[:1].tolist()), want="[0]")
    offsets = splits.astype(np.int64)  # a copy: a caller who writes to it later moves no read out of bounds
    fallen = np.flatnonzero(falls(offsets))
    if len(fallen):
        at = int(fallen[0]) + 1
        raise FeedError("splits fall", got=f"{offsets[at]} at place {at}, behind {offsets[at - 1]}", want="no less")
    lengths = np.diff(offsets)
    if trimmed:
        filled = np.flatnonzero(lengths)
        offsets = offsets[: int(filled[-1]) + 2 if len(filled) else 1]
    return Rows(offsets, int(lengths.max(initial=0)))


def rows_of_nested(outer: Rows, inner: Rows, trimmed: bool) -> Rows:
    """The rows that hold the elements of all their rows: the inner offsets at the outer ones.

    Errors: FeedError where the outer ones do not end with the inner rows.
    """
    if outer.num_elements != inner.num_rows:
        raise FeedError(
            "splits do not end with the rows that they are of", got=str(outer.num_elements), want=str(inner.num_rows)
        )
    return rows_of_splits(inner.offsets[outer.offsets], trimmed)
