"""Pooling on a CUDA device; on the CPU the kernels are interpreted.

Two launches for a batch: short bags many at a time, and the pieces of the long ones that the first noted. What a launch
reads of its segments is kept on the device: a step copies nothing there and waits for nothing.

Legend: F features; B batch rows; N elements; U rows of a matrix; D embedding_dim; S segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate

import torch
import triton

from colonnade.train.gpu import launches
from colonnade.train.gpu.launches import Branch, Tuning, kernels_of
from colonnade.train.gpu.units import UNPOOLED, Batch, Group, Units, groups_of, num_bags, offsets_of, rows_apart
from colonnade.train.segments import LAYOUTS_KEPT, Layout

Tensors = Sequence[torch.Tensor]
MOST_GROUPS = 8
"""Groups of one launch."""
ENTRY = 8
"""Words of a piece that is noted."""
PER_VALUE = 512
"""Elements of a batch for each value of a piece."""


@dataclass(frozen=True)
class Lists:
    """Long bags that a launch notes for the next. most: pieces there can be.   values: of a piece."""

    queue: torch.Tensor
    counters: torch.Tensor
    partials: torch.Tensor
    most: int
    values: int


class GpuPooling:
    """A layout as the kernels read it. Facts: keeps a few words a segment on each device it is used on."""

    def __init__(self, layout: Layout, tuning: Tuning | None = None) -> None:
        self.layout, self.groups, self.tuning = layout, groups_of(layout), tuning or Tuning()
        self._units: dict[torch.device, tuple[Units, ...]] = {}
        self._sizes = {feature: k for k, feature in enumerate(layout.unpooled.values())}

    # --- forward ----------------------------------------------------------------------------------------------------
    def pool(self, batch: Batch, rows: Tensors, flats: Tensors, sizes: Sequence[int]) -> None:
        """Write the outputs. sizes: elements of the features that are not pooled."""
        for units in self.units(batch[0].device):
            counts = [self.count(group, batch, sizes) for group in units.groups]
            own = [rows_apart(rows[group.matrix]) for group in units.groups]
            self.pool_units(units, counts, batch, own, [flats[group.flat] for group in units.groups])

    def pool_units(self, units: Units, counts: Sequence[int], batch: Batch, rows: Tensors, outs: Tensors) -> None:
        """Write what groups pool. counts: bags, rows, outs: of each group."""
        _, inverse, weights = batch
        branches = units.branches([x.stride(0) for x in rows])
        run = kernels_of(launches.write_pool, branches, self.tuning)(inverse.device.type == "cpu")
        lists = self.lists(units, counts, inverse)
        offsets = [offsets_of(group, batch) for group in units.groups]
        own = [x for part in zip(rows, offsets, outs, counts, strict=True) for x in part]
        common = (inverse, inverse if weights is None else weights, units.words, lists.queue, lists.counters)
        ends = self.ends(branches, counts)
        run.launch("bags", ends[-1], *common, lists.values, *own, *ends, num_warps=self.tuning.warps)
        programs = min(lists.most, self.tuning.programs * multiprocessors(inverse.device))
        if programs:
            run.launch("pieces", programs, *common, lists.partials, lists.values, programs, *own, num_warps=1)

    # --- how work is cut --------------------------------------------------------------------------------------------
    def units(self, device: torch.device) -> tuple[Units, ...]:
        """The units of each launch."""
        found = self._units.get(device)
        if found is None:
            parts = [self.groups[k : k + MOST_GROUPS] for k in range(0, len(self.groups), MOST_GROUPS)]
            found = self._units[device] = tuple(Units(part, device) for part in parts)
        return found

    def each(self, device: torch.device) -> Iterator[tuple[Group, torch.Tensor]]:
        """Each group, and the words of its units."""
        for units in self.units(device):
            yield from ((group, units.of(number)) for number, group in enumerate(units.groups))

    def count(self, group: Group, batch: Batch, sizes: Sequence[int]) -> int:
        """The bags of each unit."""
        return int(sizes[self._sizes[group.segments[0][0]]]) if group.family == UNPOOLED else num_bags(batch)

    def ends(self, branches: Sequence[Branch], counts: Sequence[int]) -> list[int]:
        """Where the tiles of each branch end."""
        return list(accumulate(x.tiles(n, self.tuning) for x, n in zip(branches, counts, strict=True)))

    def lists(self, units: Units, counts: Sequence[int], inverse: torch.Tensor) -> Lists:
        """Room for what a launch notes of long bags; zeros where they are counted."""
        device, elements, t = inverse.device, len(inverse) * units.repeats, self.tuning
        values = max(t.piece, triton.next_power_of_2(len(inverse) // PER_VALUE))
        wide = max(group.block for group in units.groups)
        pieces = elements // max(t.least_piece, values // wide)
        most = min(max(counts) * units.pooled, elements // (t.short + 1)) + pieces
        return Lists(
            torch.empty(max(1, most) * ENTRY, dtype=torch.int32, device=device),
            torch.zeros(2 + 2 * pieces, dtype=torch.int32, device=device),
            torch.empty(max(1, 2 * pieces * wide), dtype=torch.float32, device=device),
            most,
            values,
        )


@cache
def multiprocessors(device: torch.device) -> int:
    """Those of the device; one where kernels are interpreted."""
    return 1 if device.type == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count


@lru_cache(maxsize=LAYOUTS_KEPT)
def gpu_pooling(layout: Layout) -> GpuPooling:
    """What pools by a layout."""
    return GpuPooling(layout)
