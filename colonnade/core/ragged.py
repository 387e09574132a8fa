"""Rows of any number of elements, of lists of elements, or of one fixed number: what a feature is in a batch.

Legend: B batch rows, N elements, L lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from colonnade.core.strings import Strings


@dataclass(frozen=True, eq=False, slots=True)
class Ragged:
    """The elements of batch row b are `values[offsets[0][b] : offsets[0][b + 1]]`.

    values: a flat tensor, `Strings`, or an object array of bytes.   weights: a factor for each element, or None.
    offsets: int64, one level; or two, outer first, for rows of lists: `offsets[0]` counts lists, `offsets[1]` elements.
    Shapes: values [N], weights [N], offsets [B + 1], or [B + 1] and [L + 1].
    Facts: each level begins at 0, never decreases and ends at the length of what it cuts; nothing is ever written to.
    """

    values: Any
    offsets: tuple[torch.Tensor, ...]
    weights: torch.Tensor | None = None

    @staticmethod
    def of(values: Any, *offsets: Any, weights: Any = None) -> Ragged:
        """From arrays or lists: values, then one or two levels of offsets, outer first."""
        levels = tuple(torch.as_tensor(level, dtype=torch.int64) for level in offsets)
        factors = None if weights is None else torch.as_tensor(weights, dtype=torch.float32)
        return Ragged(values if _is_flat(values) else torch.as_tensor(values), levels, factors)

    @property
    def rows(self) -> int:
        """B."""
        return len(self.offsets[0]) - 1

    @property
    def levels(self) -> int:
        """1: rows of elements; 2: rows of lists of elements."""
        return len(self.offsets)

    @property
    def lengths(self) -> torch.Tensor:
        """The number of elements of each row, or of each list where there are lists."""
        return self.offsets[-1].diff()

    def bags(self) -> torch.Tensor:
        """For each element, the number of the row, or list, it lies in. Shapes: [N]."""
        return torch.arange(len(self.offsets[-1]) - 1).repeat_interleave(self.lengths)


def offsets_of(lengths: torch.Tensor) -> torch.Tensor:
    """Where each row begins, and where the last one ends."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.to(torch.int64).cumsum(0)])


def same_rows(parts: Sequence[Ragged]) -> bool:
    """Whether all have the same number of elements in every row, and list."""
    first = parts[0].offsets
    return all(
        len(p.offsets) == len(first) and all(torch.equal(a, b) for a, b in zip(p.offsets, first, strict=True))
        for p in parts[1:]
    )


def _is_flat(values: Any) -> bool:
    return isinstance(values, torch.Tensor | Strings) or getattr(getattr(values, "dtype", None), "kind", "") == "O"
