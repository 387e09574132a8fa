"""The way back from pooled outputs, to the gradients of rows and of weights.

Legend: F features; B batch rows; N elements; U rows of a matrix; D embedding_dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
import triton

from colonnade.train.gpu import launches
from colonnade.train.gpu.launches import Tuning, kernels_of
from colonnade.train.gpu.module import Kernels, kernels
from colonnade.train.gpu.segment import GpuPooling, Tensors, gpu_pooling, multiprocessors
from colonnade.train.gpu.units import ADDED, MAX, UNPOOLED, Batch, Group, Units, num_bags, offsets_of, rows_apart
from colonnade.train.segments import LAYOUTS_KEPT, Layout, matrices_in, starts_of

LEAST_HOT = 1 << 14
"""Elements from which on a sample tells which rows are hot."""
SAMPLE_BLOCK, FOUND = 16, 3


@dataclass(frozen=True)
class _Hot:
    """Gradients while they are added up, and which rows are hot: zeros at first.

    flat: the gradients.   sums: from each matrix's gradient on; `firsts` on lie copies of hot rows.
    all: int32 [M, rows], in the parts `numbers`.   rows: of the largest matrix, or some more.
    listed: int64 [most hot].   found: int32 [FOUND].
    """

    flat: torch.Tensor
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
        starts = starts_of(shapes)
        copies = [torch.Size((tuning.most_hot * tuning.copies, shape[1])) for shape in shapes]
        behind = starts_of(copies)
        most = max((shape[0] for shape in shapes), default=0)
        rows = most + -most % 4  # each part begins at a multiple of 16 bytes, however many rows there are
        end = starts[-1] + behind[-1]
        longs = 2 * tuning.most_hot
        memory = torch.zeros(end + longs + rows * len(shapes) + FOUND, dtype=torch.float32, device=device)
        firsts = [starts[-1] + at - start for at, start in zip(behind[:-1], starts[:-1], strict=True)]
        listed = memory[end : end + longs].view(torch.int64)
        words = memory[end + longs :].view(torch.int32)
        numbers = [words[rows * m : rows * (m + 1)] for m in range(len(shapes))]
        sums = [memory[start:] for start in starts[:-1]]
        return _Hot(memory[: starts[-1]], sums, firsts, words, numbers, rows, listed, words[-FOUND:])

    @staticmethod
    def none(shapes: Sequence[torch.Size], device: torch.device) -> _Hot:
        """No row is hot."""
        starts = starts_of(shapes)
        flat = torch.zeros(starts[-1], dtype=torch.float32, device=device)
        nothing = torch.empty(FOUND, dtype=torch.int32, device=device)
        sums = [flat[start:] for start in starts[:-1]]
        return _Hot(flat, sums, [0] * len(sums), nothing, [nothing] * len(sums), 0, nothing, nothing)


class GpuSpreading:
    """Gradients of what `pooling` pools. Facts: keeps a few words a segment on each device it is used on."""

    def __init__(self, pooling: GpuPooling) -> None:
        self.pooling = pooling
        self._some: dict[tuple[torch.device, tuple[Group, ...]], Units] = {}
        self._matrices: dict[tuple[torch.device, int], torch.Tensor] = {}

    # --- sums -------------------------------------------------------------------------------------------------------
    def spread(
        self,
        batch: Batch,
        shapes: Sequence[torch.Size],
        flats: Tensors,
        given: Sequence[torch.Tensor | None],
        rows: Tensors,
        sizes: Sequence[int],
        deterministic: bool,
    ) -> torch.Tensor:
        """The gradients of all rows, as `matrices_in` has them. given: of each flat (None: none)."""
        known = [None if g is None else g.float().contiguous() for g in given]
        device = batch[1].device
        if deterministic:
            return self._spread_in_order(batch, shapes, flats, known, rows, sizes)
        is_hot = len(batch[1]) >= LEAST_HOT
        hot = _Hot.of(shapes, self.pooling.tuning, device) if is_hot else _Hot.none(shapes, device)
        if is_hot:
            self._find_hot(batch, hot)
        for units in self.pooling.units(device):
            own = self._learning(units, known, device)
            if own is not None:
                counts = [self.pooling.count(group, batch, sizes) for group in own.groups]
                self._spread(own, counts, batch, known, hot, is_hot)
            for number, group in enumerate(units.groups):
                source = known[group.flat]
                if source is not None and group.family == MAX:
                    owners = self._owners(group, units.of(number), batch, rows[group.matrix], flats[group.flat])
                    self._spread_max(group, units.of(number), batch, source, owners, hot.sums[group.matrix])
        if is_hot:
            dims = tuple(shape[1] for shape in shapes)
            run = kernels_of(launches.write_add_copies, dims, self.pooling.tuning)(device.type == "cpu")
            sums = [x for part in zip(hot.sums, hot.firsts, strict=True) for x in part]
            run.launch("add_copies", self.pooling.tuning.most_hot, hot.listed, *sums, num_warps=4)
        return hot.flat

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
        adds_four = self.pooling.tuning.wide and _adds_four(inverse.device)
        written = kernels_of(launches.write_spread, branches, self.pooling.tuning, is_hot, adds_four)
        run = written(inverse.device.type == "cpu")
        lists = self.pooling.lists(units, counts, inverse)
        own: list[Any] = []
        for group, count in zip(units.groups, counts, strict=True):
            m = group.matrix
            own += [given[group.flat], offsets_of(group, batch), hot.sums[m], hot.numbers[m], count, hot.firsts[m]]
        common = (inverse, inverse if weights is None else weights, units.words, lists.queue, lists.counters, hot.found)
        ends = self.pooling.ends(branches, counts)
        run.launch("bags", ends[-1], *common, lists.values, *own, *ends, num_warps=self.pooling.tuning.warps)
        programs = min(lists.most, self.pooling.tuning.back_programs * multiprocessors(inverse.device))
        if programs:
            run.launch("pieces", programs, *common, lists.values, programs, *own, num_warps=1)

    def _find_hot(self, batch: Batch, hot: _Hot) -> None:
        offsets, inverse, _ = batch
        (features, stride), t = offsets.shape, self.pooling.tuning
        _kernels(inverse.device).launch(
            "find_hot", t.samples // SAMPLE_BLOCK, offsets, inverse, self._matrices_of(features, inverse.device),
            hot.all, hot.listed, hot.found, len(inverse), features, stride, hot.rows,
            SAMPLES=t.samples, BLOCK=SAMPLE_BLOCK, LEAST=t.hot, MOST=t.most_hot, TOP=t.top, num_warps=8,
        )  # fmt: skip

    def _matrices_of(self, features: int, device: torch.device) -> torch.Tensor:
        """int32 [F], the matrix that a feature's elements are rows of; -1 where their gradients are not added here."""
        found = self._matrices.get((device, features))
        if found is None:
            matrices = [-1] * features
            for group in self.pooling.groups:
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
            rows_apart(rows),
            num_bags(batch),
        )
        _kernels(offsets.device).launch(
            "own_greatest", count * len(units), rows, offsets, inverse, inverse if weights is None else weights, flat,
            owners, units, count, len(units), DIM=group.dim, ROW=rows.stride(0), BLOCK=group.block,
            E=launches.step_of(group.block, self.pooling.tuning.step), WEIGHTED=group.is_weighted, num_warps=1,
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
        count, bags = num_bags(batch), launches.bags_of(group.block, self.pooling.tuning)
        _kernels(given.device).launch(
            "spread_greatest", -(-count // bags) * len(units), given, owners, inverse,
            inverse if weights is None else weights, grads, units, count, len(units),
            DIM=group.dim, BLOCK=group.block, R=bags, WEIGHTED=group.is_weighted, num_warps=self.pooling.tuning.warps,
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
        for group, units in self.pooling.each(inverse.device):
            source, count = given[group.flat], self.pooling.count(group, batch, sizes)
            if source is None or not group.is_weighted:
                continue
            flat, matrix = flats[group.flat], rows_apart(rows[group.matrix])
            owners = self._owners(group, units, batch, matrix, flat) if group.family == MAX else units
            block = triton.next_power_of_2(group.dim)
            _kernels(inverse.device).launch(
                "weigh", count * len(units), matrix, offsets_of(group, batch), inverse, weights, flat,
                source.float().contiguous(), owners, made, units, count, len(units), DIM=group.dim,
                ROW=matrix.stride(0), BLOCK=block, E=launches.step_of(block, self.pooling.tuning.step),
                MAX=group.family == MAX, DIVIDED=group.is_divided, UNPOOLED=group.family == UNPOOLED, num_warps=1,
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
    ) -> torch.Tensor:
        """The gradients, each row's added in the order of its elements: elements are sorted by their rows."""
        device = batch[0].device
        flat = torch.zeros(starts_of(shapes)[-1], dtype=torch.float32, device=device)
        grads = matrices_in(flat, shapes)
        for group, units in self.pooling.each(device):
            source, count = given[group.flat], self.pooling.count(group, batch, sizes)
            if source is None or not len(batch[1]) or not count:
                continue
            if group.family == MAX:
                owners = self._owners(group, units, batch, rows[group.matrix], flats[group.flat])
                grads[group.matrix] += self._max_in_order(group, batch, source, owners, shapes[group.matrix])
            else:
                grads[group.matrix] += self._sums_in_order(group, units, count, batch, source, shapes[group.matrix])
        return flat

    def _sums_in_order(
        self, group: Group, units: torch.Tensor, count: int, batch: Batch, given: torch.Tensor, shape: torch.Size
    ) -> torch.Tensor:
        offsets, inverse, weights = offsets_of(group, batch), *batch[1:]
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
        self.pooling.pool_units(
            by_row, [num_rows], (ends[None, :], sources[order], factors[order]), [source], [made.view(-1)]
        )
        return made

    def _max_in_order(
        self, group: Group, batch: Batch, given: torch.Tensor, owners: torch.Tensor, shape: torch.Size
    ) -> torch.Tensor:
        _, inverse, weights = batch
        made = torch.zeros(shape, dtype=torch.float32, device=given.device)
        count = num_bags(batch)
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


@cache
def _adds_four(device: torch.device) -> bool:
    """Whether four numbers that follow each other can be added at once."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def _kernels(device: torch.device) -> Kernels:
    return kernels(device.type, *launches.FILES)


@lru_cache(maxsize=LAYOUTS_KEPT)
def gpu_spreading(layout: Layout) -> GpuSpreading:
    """What gives the gradients of a layout."""
    return GpuSpreading(gpu_pooling(layout))
