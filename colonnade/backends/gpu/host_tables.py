"""Columns whose tables lie in host memory: the host pools them while the request is staged, copied, and the others run.

What it pooled follows in a copy of its own, and goes straight into the columns' slots.
Legend: B batch rows, W the width of a column's slots.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.cpu import CpuBackend
from colonnade.backends.cpu.columns import Begun, CpuColumns
from colonnade.backends.gpu import diagnose
from colonnade.backends.gpu.columns import GpuColumns, Sources
from colonnade.backends.gpu.header import Header
from colonnade.core.batch import Layout, Packed
from colonnade.errors import IdRangeError
from colonnade.ir.column import Column, Slot, fields_read
from colonnade.ir.program import Buffer, Program, Weights

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Divided:
    """The columns of one layout, divided.

    host: those that the host pools, each with one slot, which fills a buffer of its own.   slots: where the device has
    them, by that buffer.   device: all others.   layout: what these read.
    Facts: fields that only the host reads are left out of it, dense ones where their whole dtype is.
    """

    host: Program
    slots: Mapping[str, tuple[Slot, ...]]
    device: tuple[Column, ...]
    layout: Layout


def divide(program: Program, layout: Layout, tables: frozenset[str]) -> Divided | None:
    """Divides the columns whose fields lie in `layout`; None where none of them reads one of `tables`."""
    columns = [c for c in program.columns if c.slots and set(fields_read(c)) <= layout.fields]
    hosted = [c for c in columns if c.table in tables]
    if not hosted:
        return None
    device = tuple(c for c in columns if c.table not in tables)
    host = replace(
        program,
        columns=tuple(replace(c, slots=(Slot(c.name, 0, c.slots[0].width),)) for c in hosted),
        buffers=tuple(Buffer(c.name, layout.rows, c.slots[0].width) for c in hosted),
        dense=(),
        outputs=(),
    )
    return Divided(host, {c.name: c.slots for c in hosted}, device, _device_layout(layout, device))


def _device_layout(layout: Layout, columns: Sequence[Column]) -> Layout:
    read = {name for c in columns for name in fields_read(c)}
    dtypes = {p.dtype for name, p in layout.places.items() if name in read}
    places = {name: p for name, p in layout.places.items() if p.dtype in dtypes}
    widths = {dtype: width for dtype, width in layout.widths.items() if dtype in dtypes}
    return Layout(layout.rows, places, widths, {n: p for n, p in layout.ragged.items() if n in read})


class HostColumns:
    """The columns of one layout that the host pools. Facts: any thread may run them at any time.

    layout: what the device gets.   slots: of each column, by the buffer that it fills.
    """

    def __init__(self, columns: CpuColumns, divided: Divided) -> None:
        self.layout = divided.layout
        self.slots = divided.slots
        self.widths = {b.name: b.width for b in divided.host.buffers}
        self._columns = columns

    def run(self, packed: Packed, values: Mapping[str, Array]) -> int:
        """Write each column's [B, W]; gives the number of ids outside their tables."""
        return self._columns.run(packed, values)

    def begin(self, packed: Packed, values: Mapping[str, Array]) -> Begun | None:
        """Let the host's threads do so while the caller does something else."""
        return self._columns.begin(packed, values)


class Pooling:
    """What the host pools of one request, from when it is begun.

    outside: the ids outside their tables, by layout.   nanoseconds: that a caller spent in `end`.
    """

    def __init__(self, num_layouts: int) -> None:
        self.outside = [0] * num_layouts
        self.nanoseconds = 0
        self._begun: list[tuple[int, Begun]] = []

    def begin(self, layout: int, host: HostColumns, packed: Packed, values: Mapping[str, Array]) -> None:
        """Begin with the columns of a layout."""
        begun = host.begin(packed, {name: value[: packed.rows] for name, value in values.items()})
        if begun is not None:
            self._begun.append((layout, begun))

    def end(self) -> None:
        """Do what is left. Facts: may be called again; where a layout fails, the others are ended all the same."""
        began = time.perf_counter_ns()
        try:
            while self._begun:
                layout, begun = self._begun.pop()
                self.outside[layout] = begun.end()
        finally:
            self.nanoseconds += time.perf_counter_ns() - began
            if self._begun:
                self.end()


class PlacedColumns:
    """The columns of one layout, of which the host pools some."""

    def __init__(self, program: Program, layout: Layout, host: HostColumns, device: GpuColumns, id_policy: str) -> None:
        self.layout = layout
        self.host = host
        self._program = program
        self._columns = [c for c in program.columns if c.slots and set(fields_read(c)) <= layout.fields]
        self._device = device
        self._errors = id_policy == "error"

    @property
    def header(self) -> Header:
        """What its requests have in their headers."""
        return self._device.header

    @property
    def schedule(self) -> Any:
        """What the device runs."""
        return self._device.schedule

    def workspace(self, tiles: int) -> tuple[int, int]:
        """Sizes of the float32 memory it computes in and of the int32 memory it counts in."""
        return self._device.workspace(tiles)

    def launch(
        self,
        sources: Sources,
        capacity: int,
        outputs: Mapping[str, torch.Tensor],
        status: torch.Tensor,
        tiles: int = 0,
    ) -> None:
        """Enqueues the kernel of all other columns."""
        self._device.launch(sources, capacity, outputs, status, tiles)

    def diagnose(self, packed: Packed) -> IdRangeError:
        """The error that names every id outside its table, wherever that lies."""
        return diagnose.outside(self._columns, self._program, self.layout, packed)

    def run(self, packed: Packed, out: Mapping[str, Array]) -> int:
        """Write every slot of every buffer; gives the number of ids that the policy `zero` replaced.

        Errors: IdRangeError naming column, row, value and bound, under the policy `error`.
        """
        layout = self.host.layout
        ends = {place.offsets for place in layout.ragged.values()}
        sent = replace(
            packed,
            buffers={t: b for t, b in packed.buffers.items() if t in layout.widths},
            ragged={n: v for n, v in packed.ragged.items() if n in layout.ragged},
            offsets={n: v for n, v in packed.offsets.items() if n in ends},
        )
        outside = self._device.run(sent, out)
        values = {name: np.empty((packed.rows, width), np.float32) for name, width in self.host.widths.items()}
        outside += self.host.run(packed, values)
        for name, slots in self.host.slots.items():
            for slot in slots:
                out[slot.output][:, slot.offset : slot.offset + slot.width] = values[name]
        if outside and self._errors:
            raise self.diagnose(packed)
        return outside


def placed_columns(
    program: Program,
    weights: Weights,
    layout: Layout,
    divided: Divided,
    *,
    id_policy: str,
    threads: int,
    device: torch.device,
    interpret: bool,
) -> PlacedColumns:
    """Both halves, compiled. Facts: neither refuses ids, so that one error can name those of both."""
    pooled = CpuBackend().compile(divided.host, weights, layout, id_policy="zero", threads=threads)
    rest = GpuColumns(
        divided.device, program, weights, divided.layout, id_policy="zero", device=device, interpret=interpret
    )
    return PlacedColumns(program, layout, HostColumns(pooled, divided), rest, id_policy)
