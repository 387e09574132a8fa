"""Which features are pooled from which rows into which outputs, and how the outputs lie in memory.

Legend: F features; B batch rows; S segments; D embedding_dim; W an output's width.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import torch

POOLINGS = ("sum", "mean", "sqrtn", "max", "none")
LAYOUTS_KEPT = 256
GRAIN = 16
"""Matrices that lie one behind the other begin at multiples of so many numbers."""


@dataclass(frozen=True)
class Segment:
    """Where one feature's pooled rows come from and go to.

    rows: which matrix.   output: which one, from column `at` on.   feature: which one (None: as many as come before).

    Facts: an output of a feature that is not pooled is its own, `[n, D]`.
    """

    rows: int
    embedding_dim: int
    pooling: str
    output: int
    at: int = 0
    feature: int | None = None


@dataclass(frozen=True)
class Flat:
    """Outputs that lie one behind the other, those of the same matrices. columns: the widths of those before each."""

    outputs: tuple[int, ...]
    columns: tuple[int, ...]
    width: int
    matrices: frozenset[int]
    is_pooled: bool = True


@dataclass(frozen=True, eq=False)
class Layout:
    """Segments with the numbers of their features. weighted: which features have weights.

    Facts: `read_layout` gives one object for a text, so that what is kept for a layout is found without reading it.
    """

    segments: tuple[Segment, ...]
    features: tuple[int, ...]
    widths: tuple[int, ...]
    weighted: tuple[bool, ...]

    @cached_property
    def unpooled(self) -> dict[int, int]:
        """The feature of each output that is not pooled."""
        numbered = zip(self.features, self.segments, strict=True)
        return {s.output: f for f, s in numbered if s.pooling == "none"}

    @cached_property
    def flats(self) -> tuple[Flat, ...]:
        """A gradient that does not come says of whole matrices that nothing was learned: so outputs go by those."""
        matrices: list[set[int]] = [set() for _ in self.widths]
        for segment in self.segments:
            matrices[segment.output].add(segment.rows)
        groups: dict[tuple[frozenset[int], int], list[int]] = {}
        for output, own in enumerate(matrices):
            groups.setdefault((frozenset(own), output if output in self.unpooled else -1), []).append(output)
        return tuple(self._flat(tuple(outputs), own, alone < 0) for (own, alone), outputs in groups.items())

    def _flat(self, outputs: tuple[int, ...], matrices: frozenset[int], is_pooled: bool) -> Flat:
        columns, at = [], 0
        for output in outputs:
            columns.append(at)
            at += self.widths[output]
        return Flat(outputs, tuple(columns), at, matrices, is_pooled)

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Of each output its flat and the widths of the outputs before it there."""
        return {
            output: (number, column)
            for number, flat in enumerate(self.flats)
            for output, column in zip(flat.outputs, flat.columns, strict=True)
        }

    @cached_property
    def read_back(self) -> tuple[bool, ...]:
        """Of each flat whether gradients of rows depend on its values: who was the largest."""
        largest = {s.output for s in self.segments if s.pooling == "max"}
        return tuple(not largest.isdisjoint(flat.outputs) for flat in self.flats)

    @property
    def text(self) -> str:
        """The layout as text: what an operator of torch can take."""
        parts = [[astuple(s) for s in self.segments], self.features, self.widths, [int(x) for x in self.weighted]]
        return json.dumps(parts, separators=(",", ":"))


def layout_of(segments: Sequence[Segment], widths: Sequence[int], weighted: Sequence[bool]) -> Layout:
    """The layout of segments."""
    numbers = tuple(i if s.feature is None else s.feature for i, s in enumerate(segments))
    return Layout(tuple(segments), numbers, tuple(widths), tuple(weighted))


@lru_cache(maxsize=LAYOUTS_KEPT)
def read_layout(text: str) -> Layout:
    """The layout that has this text."""
    segments, features, widths, weighted = json.loads(text)
    return Layout(tuple(Segment(*s) for s in segments), tuple(features), tuple(widths), tuple(map(bool, weighted)))


def starts_of(shapes: Sequence[torch.Size]) -> list[int]:
    """Where matrices begin that lie one behind the other, and where the last of them ends."""
    return list(accumulate((-(-shape.numel() // GRAIN) * GRAIN for shape in shapes), initial=0))


def matrices_in(flat: torch.Tensor, shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
    """The matrices that lie so in a flat tensor, as views."""
    starts = starts_of(shapes)
    return [flat.narrow(0, at, shape.numel()).view(shape) for at, shape in zip(starts, shapes, strict=False)]
