"""What kernels read of the segments of a plan: units of groups, each of one matrix, one flat, and one kind of pooling.

Legend: F features; B batch rows; N elements; U rows of a matrix; D embedding_dim; S segments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import torch

from colonnade.train.gpu.launches import Branch, block_of
from colonnade.train.segments import POOLINGS, Layout

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
"""offsets: int64 [F, B + 1].   inverse: int32 [N].   weights: float32 [N]."""
ADDED, MAX, UNPOOLED = "added", "max", "unpooled"
FAMILIES = {"max": MAX, "none": UNPOOLED}
GROUP = 6
"""The word of a unit that says its group."""


@dataclass(frozen=True)
class Group:
    """Segments that one branch pools: of one matrix, one flat and one family, each feature once.

    segments: feature, columns before its output, column, width, pooling, whether it is weighted.
    """

    matrix: int
    flat: int
    family: str
    dim: int
    segments: tuple[tuple[int, ...], ...]

    @property
    def block(self) -> int:
        """Values of a row that a program holds."""
        return block_of(self.dim)

    @cached_property
    def units(self) -> tuple[tuple[int, ...], ...]:
        """The words of `kernels/pool.py`, its group 0."""
        return tuple(
            (feature, before, at + first, width, pooling, weighted, 0, first)
            for feature, before, at, width, pooling, weighted in self.segments
            for first in range(0, self.dim, self.block)
        )

    @cached_property
    def align(self) -> int:
        """What divides where rows begin in the flat, up to 4."""
        return math.gcd(4, *(word for unit in self.units for word in unit[1:4]))

    @cached_property
    def is_weighted(self) -> bool:
        """Whether any segment has weights."""
        return any(segment[5] for segment in self.segments)

    @cached_property
    def is_divided(self) -> bool:
        """Whether any segment is a mean or sqrtn."""
        return any(segment[4] in (1, 2) for segment in self.segments)

    def branch(self, first: int, row: int) -> Branch:
        """The group as a branch of a kernel."""
        is_max, unpooled = self.family == MAX, self.family == UNPOOLED
        kinds = (self.is_weighted, self.is_divided, is_max, unpooled)
        return Branch(first, len(self.units), self.dim, row, self.align, *kinds)


def groups_of(layout: Layout) -> tuple[Group, ...]:
    """The groups of a layout, the widest rows first."""
    found: dict[tuple[int, int, str, int], Group] = {}
    seen: dict[tuple[int, int, str, int], int] = {}
    for feature, segment in zip(layout.features, layout.segments, strict=True):
        flat, column = layout.places[segment.output]
        family = FAMILIES.get(segment.pooling, ADDED)
        again = seen[segment.rows, flat, family, feature] = seen.get((segment.rows, flat, family, feature), -1) + 1
        weighted = bool(layout.weighted) and layout.weighted[feature]
        pooling, width = POOLINGS.index(segment.pooling), layout.widths[segment.output]
        words = (feature, column, segment.at, width, pooling, int(weighted))
        key = (segment.rows, flat, family, again)
        group = found.get(key, Group(segment.rows, flat, family, segment.embedding_dim, ()))
        found[key] = replace(group, segments=(*group.segments, words))
    return tuple(sorted(found.values(), key=lambda group: -group.dim))


class Units:
    """The units of groups that are launched together, as words on a device."""

    def __init__(self, groups: Sequence[Group], device: torch.device) -> None:
        self.groups = tuple(groups)
        numbered = [(g, unit) for g, group in enumerate(groups) for unit in group.units]
        words = [(*unit[:GROUP], g, *unit[GROUP + 1 :]) for g, unit in numbered]
        self.words = torch.tensor(words, dtype=torch.int64, device=device).view(-1, 8)
        self.firsts = tuple(accumulate((len(group.units) for group in groups), initial=0))[:-1]
        pooled = [unit[0] for group in groups for unit in group.units if group.family != UNPOOLED]
        self.repeats = max((pooled.count(feature) for feature in set(pooled)), default=0)
        """Of a feature among the units."""
        self.pooled = len(pooled)

    def branches(self, rows: Sequence[int]) -> tuple[Branch, ...]:
        """The groups as branches. rows: numbers from row to row, of each group."""
        parts = zip(self.groups, self.firsts, rows, strict=True)
        return tuple(group.branch(first, row) for group, first, row in parts)

    def of(self, number: int) -> torch.Tensor:
        """The words of one group."""
        first = self.firsts[number]
        return self.words[first : first + len(self.groups[number].units)]


def num_bags(batch: Batch) -> int:
    """B."""
    return batch[0].shape[1] - 1


def offsets_of(group: Group, batch: Batch) -> torch.Tensor:
    """The offsets; where a group is not pooled, those of its feature alone."""
    return batch[0][group.segments[0][0]] if group.family == UNPOOLED else batch[0]


def rows_apart(x: torch.Tensor) -> torch.Tensor:
    """The same rows, the numbers of each side by side."""
    return x if x.stride(-1) == 1 or x.numel() == 0 else x.contiguous()
