"""Pooling and its gradients on a CUDA device; on the CPU the kernels are interpreted.

Two launches for each matrix and flat output: short bags many at a time, and the pieces of the long ones that the first
noted. What a launch reads of its segments is kept on the device: a step copies nothing there and waits for nothing.

Legend: F features; B batch rows; N elements; U rows of a matrix; D embedding_dim; S segments; R bags of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any

import torch
import triton

from colonnade.train.gpu.module import Kernels, kernels
from colonnade.train.segments import LAYOUTS_KEPT, POOLINGS, Layout

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
"""offsets: int64 [F, B + 1].   inverse: int32 [N].   weights: float32 [N]."""
Tensors = Sequence[torch.Tensor]
ADDED, MAX, UNPOOLED = "added", "max", "unpooled"
FAMILIES = {"max": MAX, "none": UNPOOLED}
UNIT_WORDS = 8
WIDEST = 128
"""Values of a row that a program holds; of a wider row there are several."""
LEAST_HOT = 1 << 17
"""Elements from which on a sample tells which rows are hot."""
SAMPLES, SAMPLE_BLOCK = 1024, 32


@dataclass(frozen=True)
class Tuning:
    """How work is cut. values: of a tile of short bags.   short: the longest of these.   piece: values of a piece.

    step: values that one step of a piece loads.   least_piece: elements.   warps: of a program of short bags.
    programs: a multiprocessor, for pieces.   hot: samples of a hot row.   copies: of a hot row.
    """

    values: int = 1024
    short: int = 8
    piece: int = 16384
    step: int = 512
    least_piece: int = 128
    warps: int = 1
    programs: int = 32
    hot: int = 8
    copies: int = 32


@dataclass(frozen=True)
class Group:
    """Segments that one launch pools: of one matrix, one flat and one family, each feature once.

    units: where each begins in the flat and the like, UNIT words (see `kernels/pool.py`).
    """

    matrix: int
    flat: int
    family: str
    dim: int
    units: tuple[tuple[int, ...], ...]

    @property
    def block(self) -> int:
        """Values of a row that a program holds."""
        return int(min(WIDEST, triton.next_power_of_2(self.dim)))

    @property
    def chunks(self) -> int:
        """Programs that a row takes."""
        return -(-self.dim // self.block)

    @cached_property
    def align(self) -> int:
        """What divides where rows begin in the flat, up to 4."""
        return math.gcd(4, *(word for unit in self.units for word in unit[1:4]))

    @cached_property
    def is_weighted(self) -> bool:
        """Whether any segment has weights."""
        return any(unit[5] for unit in self.units)

    @cached_property
    def is_divided(self) -> bool:
        """Whether any segment is a mean or sqrtn."""
        return any(unit[4] in (1, 2) for unit in self.units)


def groups_of(layout: Layout) -> tuple[Group, ...]:
    """The launches of a layout."""
    found: dict[tuple[int, int, str, int], Group] = {}
    seen: dict[tuple[int, int, str, int], int] = {}
    for feature, segment in zip(layout.features, layout.segments, strict=True):
        flat, column = layout.places[segment.output]
        family = FAMILIES.get(segment.pooling, ADDED)
        again = seen[segment.rows, flat, family, feature] = seen.get((segment.rows, flat, family, feature), -1) + 1
        key = (segment.rows, flat, family, again)
        weighted = bool(layout.weighted) and layout.weighted[feature]
        pooling, width = POOLINGS.index(segment.pooling), layout.widths[segment.output]
        unit = (feature, column, segment.at, width, pooling, int(weighted), 0, 0)
        group = found.get(key, Group(segment.rows, flat, family, segment.embedding_dim, ()))
        found[key] = replace(group, units=(*group.units, unit))
    return tuple(found.values())


class GpuPooling:
    """A layout as the kernels read it. Facts: keeps a few words a segment on each device it is used on."""

    def __init__(self, layout: Layout, tuning: Tuning | None = None) -> None:
        self.layout, self.groups, self.tuning = layout, groups_of(layout), tuning or Tuning()
        self._words: dict[torch.device, list[torch.Tensor]] = {}
        self._members: dict[tuple[torch.device, int, int], torch.Tensor] = {}

    # --- forward ----------------------------------------------------------------------------------------------------
    def pool(self, batch: Batch, rows: Tensors, flats: Tensors, sizes: Sequence[int]) -> None:
        """Write the outputs. sizes: elements of the features that are not pooled."""
        for group, units in zip(self.groups, self._units(batch[0].device), strict=True):
            count = self._count(group, batch, sizes)
            self.pool_group(group, units, count, batch, _aligned(rows[group.matrix]), flats[group.flat])

    def pool_group(
        self, group: Group, units: torch.Tensor, count: int, batch: Batch, rows: torch.Tensor, flat: torch.Tensor
    ) -> None:
        """Write what one group pools. count: of bags."""
        offsets, inverse, weights = _of_group(group, batch)
        run = _kernels(offsets.device)
        lists = self._lists(group, count, len(inverse), offsets.device)
        shape, cut = _shape(group), self._cut(group)
        common = (units, lists.queue, lists.counters)
        tensors = (rows, offsets, inverse, inverse if weights is None else weights, flat)
        kind: dict[str, Any] = {
            "ROW": rows.stride(0), "ALIGN": group.align, "MAX": group.family == MAX,
            "WEIGHTED": group.is_weighted, "DIVIDED": group.is_divided,
        }  # fmt: skip
        run.launch(
            "pool_bags", self._tiles(group, count), *tensors, *common, count, len(group.units),
            **shape, **kind, R=cut.bags, SHORT=self.tuning.short, PIECE=cut.piece, UNPOOLED=group.family == UNPOOLED,
            num_warps=self.tuning.warps,
        )  # fmt: skip
        if group.family != UNPOOLED and len(inverse):
            programs = self._programs(lists.most * group.chunks, offsets.device)
            run.launch(
                "pool_pieces", programs, *tensors, *common, lists.partials, count, programs,
                **shape, **kind, E=cut.step, PIECE=cut.piece, num_warps=1,
            )  # fmt: skip

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
        known = [None if g is None else _aligned(g.float().contiguous()) for g in given]
        if deterministic:
            return self._spread_in_order(batch, shapes, flats, known, rows, sizes)
        device, total = batch[0].device, len(batch[1])
        is_hot = total >= LEAST_HOT
        sums = [_Sums.of(shape, self.tuning.copies if is_hot else 0, device) for shape in shapes]
        learned = {g.matrix for g in self.groups if known[g.flat] is not None and g.family != MAX} if is_hot else set()
        for matrix in learned:
            self._find_hot(matrix, batch, sums[matrix])
        for group, units in zip(self.groups, self._units(device), strict=True):
            source, count = known[group.flat], self._count(group, batch, sizes)
            if source is None:
                continue
            if group.family == MAX:
                owners = self._owners(group, units, count, batch, rows[group.matrix], flats[group.flat])
                self._spread_max(group, units, count, batch, source, owners, sums[group.matrix].all)
            else:
                self._spread_group(group, units, count, batch, source, sums[group.matrix])
        for matrix in learned:
            sums[matrix].add_copies(_kernels(device))
        return [x.grads for x in sums]

    def _spread_group(
        self, group: Group, units: torch.Tensor, count: int, batch: Batch, given: torch.Tensor, sums: _Sums
    ) -> None:
        offsets, inverse, weights = _of_group(group, batch)
        run = _kernels(offsets.device)
        lists = self._lists(group, count, len(inverse), offsets.device)
        shape, cut = _shape(group), self._cut(group)
        tensors = (given, offsets, inverse, inverse if weights is None else weights, sums.all, sums.hot, units)
        kind: dict[str, Any] = {
            "ALIGN": group.align, "WEIGHTED": group.is_weighted, "DIVIDED": group.is_divided,
            "COPIES": max(sums.copies, 1), "HOT": sums.copies > 0, "PIECE": cut.piece,
        }  # fmt: skip
        run.launch(
            "spread_bags", self._tiles(group, count), *tensors, lists.queue, lists.counters, count, len(group.units),
            sums.first, **shape, **kind, R=cut.bags, SHORT=self.tuning.short, UNPOOLED=group.family == UNPOOLED,
            num_warps=self.tuning.warps,
        )  # fmt: skip
        if group.family != UNPOOLED and len(inverse):
            programs = self._programs(lists.most * group.chunks, offsets.device)
            run.launch(
                "spread_pieces", programs, *tensors, lists.queue, lists.counters, count, sums.first, programs,
                **shape, **kind, E=cut.step, num_warps=1,
            )  # fmt: skip

    def _find_hot(self, matrix: int, batch: Batch, sums: _Sums) -> None:
        offsets, inverse, _ = batch
        features, stride = offsets.shape
        _kernels(offsets.device).launch(
            "find_hot", SAMPLES // SAMPLE_BLOCK, offsets, inverse, self._members_of(matrix, features, offsets.device),
            sums.hot, sums.listed, sums.found, len(inverse), features, stride,
            SAMPLES=SAMPLES, BLOCK=SAMPLE_BLOCK, LEAST=self.tuning.hot, num_warps=8,
        )  # fmt: skip

    def _members_of(self, matrix: int, features: int, device: torch.device) -> torch.Tensor:
        found = self._members.get((device, matrix, features))
        if found is None:
            members = [0] * features
            for group in self.groups:
                for unit in group.units if group.matrix == matrix and group.family != MAX else ():
                    members[unit[0]] = 1
            found = self._members[device, matrix, features] = torch.tensor(members, dtype=torch.int32, device=device)
        return found

    # --- max --------------------------------------------------------------------------------------------------------
    def _owners(
        self, group: Group, units: torch.Tensor, count: int, batch: Batch, rows: torch.Tensor, flat: torch.Tensor
    ) -> torch.Tensor:
        """Which element each greatest value of a flat is the first of."""
        offsets, inverse, weights = batch
        owners, rows = torch.empty(flat.shape, dtype=torch.int32, device=flat.device), _aligned(rows)
        _kernels(offsets.device).launch(
            "own_greatest", count * len(group.units) * group.chunks,
            rows, offsets, inverse, inverse if weights is None else weights, flat, owners, units,
            count, len(group.units), **_shape(group), ROW=rows.stride(0), E=self._cut(group).step,
            WEIGHTED=group.is_weighted, num_warps=1,
        )  # fmt: skip
        return owners

    def _spread_max(
        self,
        group: Group,
        units: torch.Tensor,
        count: int,
        batch: Batch,
        given: torch.Tensor,
        owners: torch.Tensor,
        grads: torch.Tensor,
    ) -> None:
        _, inverse, weights = batch
        _kernels(given.device).launch(
            "spread_greatest", self._tiles(group, count), given, owners, inverse,
            inverse if weights is None else weights, grads, units, count, len(group.units),
            **_shape(group), R=self._cut(group).bags, WEIGHTED=group.is_weighted, num_warps=self.tuning.warps,
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
        inverse = batch[1]
        made = torch.zeros(inverse.shape, dtype=torch.float32, device=inverse.device)
        for group, units in zip(self.groups, self._units(inverse.device), strict=True):
            source, count = given[group.flat], self._count(group, batch, sizes)
            if source is None or not group.is_weighted:
                continue
            offsets, _, weights = _of_group(group, batch)
            flat, matrix = flats[group.flat], _aligned(rows[group.matrix])
            owners = self._owners(group, units, count, batch, matrix, flat) if group.family == MAX else units
            block = triton.next_power_of_2(group.dim)
            _kernels(offsets.device).launch(
                "weigh", count * len(group.units), matrix, offsets, inverse, weights, flat, source.float().contiguous(),
                owners, made, units, count, len(group.units), DIM=group.dim, ROW=matrix.stride(0), BLOCK=block,
                E=max(1, self.tuning.step // block), MAX=group.family == MAX, DIVIDED=group.is_divided,
                UNPOOLED=group.family == UNPOOLED, num_warps=1,
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
        for group, units in zip(self.groups, self._units(device), strict=True):
            source, count = given[group.flat], self._count(group, batch, sizes)
            if source is None or not len(batch[1]) or not count:
                continue
            if group.family == MAX:
                owners = self._owners(group, units, count, batch, rows[group.matrix], flats[group.flat])
                grads[group.matrix] += self._max_in_order(group, batch, source, owners, shapes[group.matrix])
            else:
                grads[group.matrix] += self._sums_in_order(group, units, count, batch, source, shapes[group.matrix])
        return grads

    def _sums_in_order(
        self, group: Group, units: torch.Tensor, count: int, batch: Batch, given: torch.Tensor, shape: torch.Size
    ) -> torch.Tensor:
        offsets, inverse, weights = _of_group(group, batch)
        device, num_rows = offsets.device, shape[0]
        keys = torch.full(inverse.shape, num_rows, dtype=torch.int64, device=device)
        sources, factors = torch.zeros_like(keys), torch.zeros(inverse.shape, dtype=torch.float32, device=device)
        _kernels(device).launch(
            "list_sources", count * len(group.units), offsets, inverse, inverse if weights is None else weights,
            keys, sources, factors, units, count, len(group.units), E=128, ALIGN=group.align,
            WEIGHTED=group.is_weighted, DIVIDED=group.is_divided, UNPOOLED=group.family == UNPOOLED, num_warps=1,
        )  # fmt: skip
        keys, order = keys.sort(stable=True)
        ends = torch.searchsorted(keys, torch.arange(num_rows + 1, device=device))
        made = torch.empty(shape, dtype=torch.float32, device=device)
        words = (0, 0, 0, group.dim, 0, 1, 0, 0)
        by_row = Group(0, 0, ADDED, group.dim, (words,))
        unit = self._units_of((by_row,), device)[0]
        source = given.as_strided((given.numel() // group.align, group.align), (group.align, 1))
        turned = (ends[None, :], sources[order], factors[order])
        self.pool_group(by_row, unit, num_rows, turned, source, made)
        return made

    def _max_in_order(
        self, group: Group, batch: Batch, given: torch.Tensor, owners: torch.Tensor, shape: torch.Size
    ) -> torch.Tensor:
        _, inverse, weights = batch
        made = torch.zeros(shape, dtype=torch.float32, device=given.device)
        count = batch[0].shape[1] - 1
        for feature, column, at, width, _, weighted, *_ in group.units:
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

    # --- how work is cut --------------------------------------------------------------------------------------------
    def _count(self, group: Group, batch: Batch, sizes: Sequence[int]) -> int:
        """The bags of each unit."""
        if group.family != UNPOOLED:
            return batch[0].shape[1] - 1
        return int(sizes[list(self.layout.unpooled.values()).index(group.units[0][0])])

    def _cut(self, group: Group) -> _Cut:
        t = self.tuning
        return _Cut(
            max(1, t.values // group.block), max(1, t.step // group.block), max(t.least_piece, t.piece // group.block)
        )

    def _tiles(self, group: Group, count: int) -> int:
        return -(-count // self._cut(group).bags) * len(group.units) * group.chunks

    def _programs(self, most: int, device: torch.device) -> int:
        return min(most, _multiprocessors(device) * self.tuning.programs)

    def _lists(self, group: Group, count: int, elements: int, device: torch.device) -> _Lists:
        """Room for what a launch notes of long bags; zeros where they are counted."""
        if group.family == UNPOOLED:
            none = torch.empty(1, dtype=torch.int32, device=device)
            return _Lists(none, none, none, 0)
        piece = self._cut(group).piece
        most = min(count * len(group.units), elements // (self.tuning.short + 1)) + elements // piece
        slots = 2 * (elements // piece)
        return _Lists(
            torch.empty(max(1, most) * 4, dtype=torch.int32, device=device),
            torch.zeros(2 + slots * group.chunks, dtype=torch.int32, device=device),
            torch.empty(max(1, slots * group.chunks * group.block), dtype=torch.float32, device=device),
            most,
        )

    def _units(self, device: torch.device) -> list[torch.Tensor]:
        found = self._words.get(device)
        if found is None:
            found = self._words[device] = self._units_of(self.groups, device)
        return found

    @staticmethod
    def _units_of(groups: Sequence[Group], device: torch.device) -> list[torch.Tensor]:
        return [torch.tensor(g.units, dtype=torch.int64, device=device) for g in groups]


@dataclass(frozen=True)
class _Cut:
    """bags: of a tile.   step: elements of a step of a piece.   piece: elements of one."""

    bags: int
    step: int
    piece: int


@dataclass(frozen=True)
class _Lists:
    """Long bags that a launch notes for the next. most: pieces there can be."""

    queue: torch.Tensor
    counters: torch.Tensor
    partials: torch.Tensor
    most: int


@dataclass(frozen=True)
class _Sums:
    """The gradient of one matrix while it is added up. all: `grads`, then from `first` on copies of hot rows.

    hot: int32 [U].   listed: int32 [most hot rows].   found: int32 [1].
    """

    all: torch.Tensor
    grads: torch.Tensor
    hot: torch.Tensor
    listed: torch.Tensor
    found: torch.Tensor
    first: int
    copies: int

    @staticmethod
    def of(shape: torch.Size, copies: int, device: torch.device) -> _Sums:
        """Zeros, all cleared at once."""
        size, most = shape.numel(), SAMPLES if copies else 0
        most = min(most, SAMPLES // 2, shape[0])
        first = -(-size // 16) * 16
        hot_at = first + -(-most * copies * shape[1] // 16) * 16
        listed_at = hot_at + (shape[0] if copies else 0)
        room = torch.zeros(listed_at + most + 1, dtype=torch.float32, device=device)
        words = room.view(torch.int32)
        return _Sums(
            room, room[:size].view(shape), words[hot_at:listed_at], words[listed_at : listed_at + most],
            words[listed_at + most :], first, copies,
        )  # fmt: skip

    def add_copies(self, run: Kernels) -> None:
        """Add the copies of hot rows to their gradients."""
        dim = self.grads.shape[1]
        run.launch(
            "add_copies", len(self.listed), self.all, self.listed, self.found, self.first,
            DIM=dim, BLOCK=min(WIDEST, triton.next_power_of_2(dim)), COPIES=self.copies, num_warps=4,
        )  # fmt: skip


def _of_group(group: Group, batch: Batch) -> Batch:
    """The batch; where a group is not pooled, with the offsets of its feature alone."""
    offsets, inverse, weights = batch
    return (offsets[group.units[0][0]] if group.family == UNPOOLED else offsets), inverse, weights


def _shape(group: Group) -> dict[str, Any]:
    return {"DIM": group.dim, "BLOCK": group.block, "CHUNKS": group.chunks}


def _aligned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, each row's side by side."""
    return x if x.stride(-1) == 1 or x.numel() == 0 else x.contiguous()


def _kernels(device: torch.device) -> Kernels:
    return kernels(device.type, "pool", "spread")


@cache
def _multiprocessors(device: torch.device) -> int:
    """Those of the device; few where kernels are interpreted."""
    return 1 if device.type == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count


@lru_cache(maxsize=LAYOUTS_KEPT)
def gpu_pooling(layout: Layout) -> GpuPooling:
    """What pools by a layout."""
    return GpuPooling(layout)
