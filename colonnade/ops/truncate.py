"""`truncate`: rows of at most, or exactly, some number of elements or lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.ragged import Ragged, offsets_of
from colonnade.errors import ShapeError
from colonnade.ops.op import ElementFacts, RaggedOp, RowFacts, Value, structural


@dataclass(frozen=True)
class Truncate(RaggedOp):
    """The first or the last `length` elements of each row, with their weights; rows of lists: of its lists.

    padded: shorter rows are filled up at their end, by `fill` with weight 0, rows of lists by empty lists.
    Facts: `side` names what is kept; others who say "truncate the left side" keep the last.
    """

    length: int
    side: str = structural(default="last")
    padded: bool = structural(default=False)
    fill: int | float | bytes = 0

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """Those of x, and of the fill where rows of elements are padded."""
        (x,) = args
        if self.length < 0 or self.side not in ("first", "last"):
            raise ShapeError(
                "truncate keeps the first or the last elements", got=f"{self.side!r}, {self.length}", want=">= 0"
            )
        if not self.padded:
            return x
        kind = {"string": bytes, "int64": int, "int32": int}.get(x.dtype, float)
        if not isinstance(self.fill, kind if kind is not float else (int, float)):
            raise ShapeError("truncate: a fill of another type", got=f"{self.fill!r} for {x.dtype}", want=kind.__name__)
        if kind is not int or x.lo is None or x.hi is None:
            return ElementFacts(x.dtype)
        return ElementFacts(x.dtype, min(x.lo, int(self.fill)), max(x.hi, int(self.fill)))

    def rows(self, *args: RowFacts) -> RowFacts:
        """Of a fixed number of elements where padded."""
        (x,) = args
        if x.width is not None:
            return RowFacts(x.levels, self.length if self.padded else min(x.width, self.length))
        return RowFacts(x.levels, self.length if self.padded else None)

    def apply(self, *args: Ragged) -> Ragged:
        """By the numbers of what is kept."""
        (x,) = args
        outer, num_rows = x.offsets[0], x.rows
        lengths = outer.diff()
        kept = lengths.clamp(max=self.length)
        begins = outer[1:] - kept if self.side == "last" else outer[:-1]
        sizes = torch.full((num_rows,), self.length, dtype=torch.int64) if self.padded else kept
        offsets = offsets_of(sizes)
        places = torch.arange(int(offsets[-1])) - offsets[:-1].repeat_interleave(sizes)
        from_B = begins.repeat_interleave(sizes)
        found = places < kept.repeat_interleave(sizes)
        if x.levels == 1:
            return _elements(x, offsets, torch.where(found, from_B + places, -1), self.fill)
        return _lists(x, offsets, torch.where(found, from_B + places, -1))


def _elements(x: Ragged, offsets: torch.Tensor, at: torch.Tensor, fill: int | float | bytes) -> Ragged:
    """The elements at some places, the fill at -1."""
    weights = None
    if x.weights is not None:
        weights = torch.cat([x.weights, torch.zeros(1, dtype=x.weights.dtype)])[at]
    return Ragged(
        _with_fill(x.values, fill)[at if isinstance(x.values, torch.Tensor) else at.numpy()], (offsets,), weights
    )


def _with_fill(values: Value, fill: int | float | bytes) -> Value:
    if isinstance(values, torch.Tensor):
        return torch.cat([values, torch.tensor([fill], dtype=values.dtype)])
    last = np.empty(1, object)
    last[0] = fill
    return np.concatenate([values, last])


def _lists(x: Ragged, offsets: torch.Tensor, at: torch.Tensor) -> Ragged:
    """The lists at some places, empty ones at -1."""
    begins = torch.cat([x.offsets[1][:-1], torch.zeros(1, dtype=torch.int64)])[at]
    lengths = torch.cat([x.lengths, torch.zeros(1, dtype=torch.int64)])[at]
    inner = offsets_of(lengths)
    elements = (begins - inner[:-1]).repeat_interleave(lengths) + torch.arange(int(inner[-1]))
    values = x.values[elements if isinstance(x.values, torch.Tensor) else elements.numpy()]
    return Ragged(values, (offsets, inner), None if x.weights is None else x.weights[elements])
