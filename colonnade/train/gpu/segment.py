"""Pooling and its gradients on a CUDA device; on the CPU the kernels are interpreted.

Two launches for a batch: short bags many at a time, and the pieces of the long ones that the first noted. What a launch
reads of its segments is kept on the device: a step copies nothing there and waits for nothing.

Legend: F features; B batch rows; N elements; U rows of a matrix; D embedding_dim; S segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import Any

import torch
import triton

from colonnade.train.gpu import launches
from colonnade.train.gpu.launches import Branch, Tuning, block_of, kernels_of
from colonnade.train.gpu.module import Kernels, kernels
from colonnade.train.segments import LAYOUTS_KEPT, POOLINGS, Layout

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
"""offsets: int64 [F, B + 1].   inverse: int32 [N].   weights: float32 [N]."""
Tensors = Sequence[torch.Tensor]
ADDED, MAX, UNPOOLED = "added", "max", "unpooled"
FAMILIES = {"max": MAX, "none": UNPOOLED}
GROUP = 6
"""The word of a unit that says its group."""
MOST_GROUPS = 8
"""Groups of one launch."""
LEAST_HOT = 1 << 14
"""Elements from which on a sample tells which rows are hot."""
PER_VALUE = 512
"""Elements of a batch for each value of a piece."""
SAMPLE_BLOCK = 16


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


class GpuPooling:
    """A layout as the kernels read it. Facts: keeps a few words a segment on each device it is used on."""

    def __init__(self, layout: Layout, tuning: Tuning | None = None) -> None:
        self.layout, self.groups, self.tuning = layout, groups_of(layout), tuning or Tuning()
        self._units: dict[torch.device, tuple[Units, ...]] = {}
        self._some: dict[tuple[torch.device, tuple[Group, ...]], Units] = {}
        self._matrices: dict[tuple[torch.device, int], torch.Tensor] = {}
        self._sizes = {feature: k for k, feature in enumerate(layout.unpooled.values())}

    # --- forward ----------------------------------------------------------------------------------------------------
    def pool(self, batch: Batch, rows: Tensors, flats: Tensors, sizes: Sequence[int]) -> None:
        """Write the outputs. sizes: elements of the features that are not pooled."""
        for units in self.units(batch[0].device):
            counts = [self._count(group, batch, sizes) for group in units.groups]
            own = [_rows_apart(rows[group.matrix]) for group in units.groups]
            self._pool(units, counts, batch, own, [flats[group.flat] for group in units.groups])

    def _pool(self, units: Units, counts: Sequence[int], batch: Batch, rows: Tensors, outs: Tensors) -> None:
        """Write what groups pool. counts: bags, rows, outs: of each group."""
        _, inverse, weights = batch
        branches = units.branches([x.stride(0) for x in rows])
        run = kernels_of(launches.write_pool, branches, self.tuning)(inverse.device.type == "cpu")
        lists = self._lists(units, counts, inverse)
        offsets = [_offsets_of(group, batch) for group in units.groups]
        own = [x for part in zip(rows, offsets, outs, counts, strict=True) for x in part]
        common = (inverse, inverse if weights is None else weights, units.words, lists.queue, lists.counters)
        ends = self._ends(branches, counts)
        run.launch("bags", ends[-1], *common, lists.values, *own, *ends, num_warps=self.tuning.warps)
        programs = min(lists.most, self.tuning.programs * _multiprocessors(inverse.device))
        if programs:
            run.launch("pieces", programs, *common, lists.partials, lists.values, programs, *own, num_warps=1)

    # --- backward ---------------------------------------------------------------------------------------------------
    def spread(
        self,
        batch: Batch,
        shapes: Sequence[torch.Size],
        flats: Tensors,
        given: Sequence[torch.Tensor | None],
        rows: Tensors,
        sizes: Sequence[int],
        deterministic: bool,
    ) -> list[torch.Tensor]:
        """The gradients of all rows. given: of each flat (None: none)."""
        known = [None if g is None else g.float().contiguous() for g in given]
        device = batch[1].device
        if deterministic:
            return self._spread_in_order(batch, shapes, flats, known, rows, sizes)
        is_hot = len(batch[1]) >= LEAST_HOT
        hot = _Hot.of(shapes, self.tuning, device) if is_hot else _Hot.none(shapes, device)
        if is_hot:
            self._find_hot(batch, hot)
        for units in self.units(device):
            own = self._learning(units, known, device)
            if own is not None:
                counts = [self._count(group, batch, sizes) for group in own.groups]
                self._spread(own, counts, batch, known, hot, is_hot)
            for number, group in enumerate(units.groups):
                source = known[group.flat]
                if source is not None and group.family == MAX:
                    owners = self._owners(group, units.of(number), batch, rows[group.matrix], flats[group.flat])
                    self._spread_max(group, units.of(number), batch, source, owners, hot.sums[group.matrix])
        if is_hot:
            dims = tuple(shape[1] for shape in shapes)
            run = kernels_of(launches.write_add_copies, dims, self.tuning)(device.type == "cpu")
            sums = [x for part in zip(hot.sums, hot.firsts, strict=True) for x in part]
            run.launch("add_copies", self.tuning.most_hot, hot.listed, hot.found, *sums, num_warps=4)
        return [x[: shape.numel()].view(shape) for x, shape in zip(hot.sums, shapes, strict=True)]

    def _spread(
        self,
        units: Units,
        counts: Sequence[int],
        batch: Batch,
        given: Sequence[torch.Tensor | None],
        hot: _Hot,
        is_hot: bool,
    ) -> None:
        _, inverse, weights = batch
        branches = units.branches([0] * len(units.groups))
        run = kernels_of(launches.write_spread, branches, self.tuning, is_hot)(inverse.device.type == "cpu")
        lists = self._lists(units, counts, inverse)
        own: list[Any] = []
        for group, count in zip(units.groups, counts, strict=True):
            m = group.matrix
            own += [given[group.flat], _offsets_of(group, batch), hot.sums[m], hot.numbers[m], count, hot.firsts[m]]
        common = (inverse, inverse if weights is None else weights, units.words, lists.queue, lists.counters, hot.found)
        ends = self._ends(branches, counts)
        run.launch("bags", ends[-1], *common, lists.values, *own, *ends, num_warps=self.tuning.warps)
        programs = min(lists.most, self.tuning.back_programs * _multiprocessors(inverse.device))
        if programs:
            run.launch("pieces", programs, *common, lists.values, programs, *own, num_warps=1)

    def _find_hot(self, batch: Batch, hot: _Hot) -> None:
        offsets, inverse, _ = batch
        (features, stride), t = offsets.shape, self.tuning
        _kernels(inverse.device).launch(
            "find_hot", t.samples // SAMPLE_BLOCK, offsets, inverse, self._matrices_of(features, inverse.device),
            hot.all, hot.listed, hot.found, len(inverse), features, stride, hot.rows,
            SAMPLES=t.samples, BLOCK=SAMPLE_BLOCK, LEAST=t.hot, MOST=t.most_hot, num_warps=8,
        )  # fmt: skip

    def _matrices_of(self, features: int, device: torch.device) -> torch.Tensor:
        """int32 [F], the matrix that a feature's elements are rows of; -1 where their gradients are not added here."""
        found = self._matrices.get((device, features))
        if found is None:
            matrices = [-1] * features
            for group in self.groups:
                for segment in group.segments if group.family != MAX else ():
                    matrices[segment[0]] = group.matrix
            found = self._matrices[device, features] = torch.tensor(matrices, dtype=torch.int32, device=device)
        return found

    def _learning(self, units: Units, given: Sequence[torch.Tensor | None], device: torch.device) -> Units | None:
        """The units whose sums have a gradient."""
        chosen = tuple(g for g in units.groups if given[g.flat] is not None and g.family != MAX)
        if len(chosen) == len(units.groups):
            return units
        if chosen and (device, chosen) not in self._some:
            self._some[device, chosen] = Units(chosen, device)
        return self._some[device, chosen] if chosen else None

    # --- max --------------------------------------------------------------------------------------------------------
    def _owners(
        self, group: Group, units: torch.Tensor, batch: Batch, rows: torch.Tensor, flat: torch.Tensor
    ) -> torch.Tensor:
        """Which element each greatest value of a flat is the first of."""
        offsets, inverse, weights = batch
        owners, rows, count = (
            torch.empty(flat.shape, dtype=torch.int32, device=flat.device),
            _rows_apart(rows),
            _bags(batch),
        )
        _kernels(offsets.device).launch(
            "own_greatest", count * len(units), rows, offsets, inverse, inverse if weights is None else weights, flat,
            owners, units, count, len(units), DIM=group.dim, ROW=rows.stride(0), BLOCK=group.block,
            E=launches.step_of(group.block, self.tuning.step), WEIGHTED=group.is_weighted, num_warps=1,
        )  # fmt: skip
        return owners

    def _spread_max(
        self,
        group: Group,
        units: torch.Tensor,
        batch: Batch,
        given: torch.Tensor,
        owners: torch.Tensor,
        grads: torch.Tensor,
    ) -> None:
        _, inverse, weights = batch
        count, bags = _bags(batch), launches.bags_of(group.block, self.tuning)
        _kernels(given.device).launch(
            "spread_greatest", -(-count // bags) * len(units), given, owners, inverse,
            inverse if weights is None else weights, grads, units, count, len(units),
            DIM=group.dim, BLOCK=group.block, R=bags, WEIGHTED=group.is_weighted, num_warps=self.tuning.warps,
        )  # fmt: skip

    # --- weights ----------------------------------------------------------------------------------------------------
    def weigh(
        self,
        batch: Batch,
        rows: Tensors,
        flats: Tensors,
        given: Sequence[torch.Tensor | None],
        sizes: Sequence[int],
    ) -> torch.Tensor:
        """The gradient of the weights, float32 [N]."""
        _, inverse, weights = batch
        made = torch.zeros(inverse.shape, dtype=torch.float32, device=inverse.device)
        for group, units in self._each(inverse.device):
            source, count = given[group.flat], self._count(group, batch, sizes)
            if source is None or not group.is_weighted:
                continue
            flat, matrix = flats[group.flat], _rows_apart(rows[group.matrix])
            owners = self._owners(group, units, batch, matrix, flat) if group.family == MAX else units
            block = triton.next_power_of_2(group.dim)
            _kernels(inverse.device).launch(
                "weigh", count * len(units), matrix, _offsets_of(group, batch), inverse, weights, flat,
                source.float().contiguous(), owners, made, units, count, len(units), DIM=group.dim,
                ROW=matrix.stride(0), BLOCK=block, E=launches.step_of(block, self.tuning.step), MAX=group.family == MAX,
                DIVIDED=group.is_divided, UNPOOLED=group.family == UNPOOLED, num_warps=1,
            )  # fmt: skip
        return made

    # --- the same bits each time ------------------------------------------------------------------------------------
    def _spread_in_order(
        self,
        batch: Batch,
        shapes: Sequence[torch.Size],
        flats: Tensors,
        given: Sequence[torch.Tensor | None],
        rows: Tensors,
        sizes: Sequence[int],
    ) -> list[torch.Tensor]:
        """The gradients, each row's added in the order of its elements: elements are sorted by their rows."""
        device = batch[0].device
        grads = [torch.zeros(shape, dtype=torch.float32, device=device) for shape in shapes]
        for group, units in self._each(device):
            source, count = given[group.flat], self._count(group, batch, sizes)
            if source is None or not len(batch[1]) or not count:
                continue
            if group.family == MAX:
                owners = self._owners(group, units, batch, rows[group.matrix], flats[group.flat])
                grads[group.matrix] += self._max_in_order(group, batch, source, owners, shapes[group.matrix])
            else:
                grads[group.matrix] += self._sums_in_order(group, units, count, batch, source, shapes[group.matrix])
        return grads

    def _sums_in_order(
        self, group: Group, units: torch.Tensor, count: int, batch: Batch, given: torch.Tensor, shape: torch.Size
    ) -> torch.Tensor:
        offsets, inverse, weights = _offsets_of(group, batch), *batch[1:]
        device, num_rows = offsets.device, shape[0]
        keys = torch.full(inverse.shape, num_rows, dtype=torch.int64, device=device)
        sources, factors = torch.zeros_like(keys), torch.zeros(inverse.shape, dtype=torch.float32, device=device)
        _kernels(device).launch(
            "list_sources", count * len(units), offsets, inverse, inverse if weights is None else weights,
            keys, sources, factors, units, count, len(units), E=128, ALIGN=group.align,
            WEIGHTED=group.is_weighted, DIVIDED=group.is_divided, UNPOOLED=group.family == UNPOOLED, num_warps=1,
        )  # fmt: skip
        keys, order = keys.sort(stable=True)
        ends = torch.searchsorted(keys, torch.arange(num_rows + 1, device=device))
        made = torch.empty(shape, dtype=torch.float32, device=device)
        by_row = self._by_row(group.dim, device)
        source = given.as_strided((given.numel() // group.align, group.align), (group.align, 1))
        self._pool(by_row, [num_rows], (ends[None, :], sources[order], factors[order]), [source], [made.view(-1)])
        return made

    def _max_in_order(
        self, group: Group, batch: Batch, given: torch.Tensor, owners: torch.Tensor, shape: torch.Size
    ) -> torch.Tensor:
        _, inverse, weights = batch
        made = torch.zeros(shape, dtype=torch.float32, device=given.device)
        count = _bags(batch)
        for feature, column, at, width, _, weighted in group.segments:
            first = column * count
            own = owners[first : first + count * width].view(count, width)[:, at : at + group.dim]
            g = given[first : first + count * width].view(count, width)[:, at : at + group.dim]
            is_any = (batch[0][feature, 1:] > batch[0][feature, :-1])[:, None] & (own < len(inverse))
            elements = torch.where(is_any, own, 0).long()
            if weights is not None and weighted:
                g = g * weights[elements]
            places = inverse[elements].long() * group.dim + torch.arange(group.dim, device=given.device)
            g = torch.where(is_any, g, 0.0)
            made.view(-1).index_put_((places.reshape(-1),), g.reshape(-1), accumulate=True)
        return made

    @staticmethod
    @cache
    def _by_row(dim: int, device: torch.device) -> Units:
        """Units that add up a gradient for each row."""
        return Units([Group(0, 0, ADDED, dim, ((0, 0, 0, dim, 0, 1),))], device)

    # --- how work is cut --------------------------------------------------------------------------------------------
    def units(self, device: torch.device) -> tuple[Units, ...]:
        """The units of each launch."""
        found = self._units.get(device)
        if found is None:
            parts = [self.groups[k : k + MOST_GROUPS] for k in range(0, len(self.groups), MOST_GROUPS)]
            found = self._units[device] = tuple(Units(part, device) for part in parts)
        return found

    def _each(self, device: torch.device) -> Iterator[tuple[Group, torch.Tensor]]:
        for units in self.units(device):
            yield from ((group, units.of(number)) for number, group in enumerate(units.groups))

    def _count(self, group: Group, batch: Batch, sizes: Sequence[int]) -> int:
        """The bags of each unit."""
        return int(sizes[self._sizes[group.segments[0][0]]]) if group.family == UNPOOLED else _bags(batch)

    def _ends(self, branches: Sequence[Branch], counts: Sequence[int]) -> list[int]:
        """Where the tiles of each branch end."""
        return list(accumulate(x.tiles(n, self.tuning) for x, n in zip(branches, counts, strict=True)))

    def _lists(self, units: Units, counts: Sequence[int], inverse: torch.Tensor) -> _Lists:
        """Room for what a launch notes of long bags; zeros where they are counted."""
        device, elements, t = inverse.device, len(inverse) * units.repeats, self.tuning
        values = max(t.piece, triton.next_power_of_2(len(inverse) // PER_VALUE))
        wide = max(group.block for group in units.groups)
        pieces = elements // max(t.least_piece, values // wide)
        most = min(max(counts) * units.pooled, elements // (t.short + 1)) + pieces
        return _Lists(
            torch.empty(max(1, most) * 4, dtype=torch.int32, device=device),
            torch.zeros(2 + 2 * pieces, dtype=torch.int32, device=device),
            torch.empty(max(1, 2 * pieces * wide), dtype=torch.float32, device=device),
            most,
            values,
        )


@dataclass(frozen=True)
class _Lists:
    """Long bags that a launch notes for the next. most: pieces there can be.   values: of a piece."""

    queue: torch.Tensor
    counters: torch.Tensor
    partials: torch.Tensor
    most: int
    values: int


@dataclass(frozen=True)
class _Hot:
    """Gradients while they are added up, and which rows are hot: zeros at first.

    sums: of each matrix its gradient, then from `firsts` on copies of hot rows.   all: int32 [M, rows], in the parts
    `numbers`.   rows: of the largest matrix.   listed: int64 [most hot].   found: int32 [2].
    """

    sums: list[torch.Tensor]
    firsts: list[int]
    all: torch.Tensor
    numbers: list[torch.Tensor]
    rows: int
    listed: torch.Tensor
    found: torch.Tensor

    @staticmethod
    def of(shapes: Sequence[torch.Size], tuning: Tuning, device: torch.device) -> _Hot:
        """Room for hot rows."""
        firsts = [-(-shape.numel() // 16) * 16 for shape in shapes]
        copies = [tuning.most_hot * tuning.copies * shape[1] for shape in shapes]
        sums = [
            torch.zeros(first + more, dtype=torch.float32, device=device)
            for first, more in zip(firsts, copies, strict=True)
        ]
        rows = max((shape[0] for shape in shapes), default=0)
        words = torch.zeros(rows * len(shapes) + 2, dtype=torch.int32, device=device)
        numbers = [words[rows * m : rows * (m + 1)] for m in range(len(shapes))]
        listed = torch.empty(tuning.most_hot, dtype=torch.int64, device=device)
        return _Hot(sums, firsts, words, numbers, rows, listed, words[-2:])

    @staticmethod
    def none(shapes: Sequence[torch.Size], device: torch.device) -> _Hot:
        """No row is hot."""
        sums = [torch.zeros(shape.numel(), dtype=torch.float32, device=device) for shape in shapes]
        nothing = torch.empty(2, dtype=torch.int32, device=device)
        return _Hot(sums, [0] * len(sums), nothing, [nothing] * len(sums), 0, nothing, nothing)


def _bags(batch: Batch) -> int:
    return batch[0].shape[1] - 1


def _offsets_of(group: Group, batch: Batch) -> torch.Tensor:
    """The offsets; where a group is not pooled, those of its feature alone."""
    return batch[0][group.segments[0][0]] if group.family == UNPOOLED else batch[0]


def _rows_apart(x: torch.Tensor) -> torch.Tensor:
    """The same rows, the numbers of each side by side."""
    return x if x.stride(-1) == 1 or x.numel() == 0 else x.contiguous()


def _kernels(device: torch.device) -> Kernels:
    return kernels(device.type, *launches.FILES)


@cache
def _multiprocessors(device: torch.device) -> int:
    """Those of the device; one where kernels are interpreted."""
    return 1 if device.type == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count


@lru_cache(maxsize=LAYOUTS_KEPT)
def gpu_pooling(layout: Layout) -> GpuPooling:
    """What pools by a layout."""
    return GpuPooling(layout)
