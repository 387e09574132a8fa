"""Columns whose tables lie in host memory: the host pools them into the batch that goes to the device.

There they are numeric columns, each over a float32 field of its own that lies behind the request's float32 fields.
Legend: B batch rows, W the width of a column's slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.backend import Columns
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.gpu import diagnose
from colonnade.backends.gpu.columns import GpuColumns, Sources
from colonnade.backends.gpu.header import Header
from colonnade.core.batch import Layout, Packed, Place
from colonnade.core.expr import Field
from colonnade.errors import IdRangeError
from colonnade.ir.column import Column, Slot, fields_read
from colonnade.ir.program import Buffer, Program, Weights

Array = npt.NDArray[Any]
VALUES = "float32"


@dataclass(frozen=True)
class Divided:
    """The columns of one layout, divided.

    host: those that the host pools, each with one slot, which fills a buffer of its own.   device: all others, and
    those again as numeric columns.   layout: what the device gets, the host's values among it.
    Facts: fields that only the host reads are left out of it, dense ones where their whole dtype is.
    """

    host: Program
    device: tuple[Column, ...]
    layout: Layout


def divide(program: Program, layout: Layout, tables: frozenset[str]) -> Divided | None:
    """Divides the columns whose fields lie in `layout`; None where none of them reads one of `tables`."""
    columns = [c for c in program.columns if c.slots and set(fields_read(c)) <= layout.fields]
    hosted = {c.name: c for c in columns if c.table in tables}
    if not hosted:
        return None
    names = _fresh(hosted, layout.fields | {b.name for b in program.buffers})
    widths = {names[c.name]: c.slots[0].width for c in hosted.values()}
    device = tuple(_numeric(c, names[c.name]) if c.name in hosted else c for c in columns)
    host = replace(
        program,
        columns=tuple(replace(c, slots=(Slot(names[c.name], 0, c.slots[0].width),)) for c in hosted.values()),
        buffers=tuple(Buffer(name, layout.rows, width) for name, width in widths.items()),
        dense=(),
        outputs=(),
    )
    return Divided(host, device, _device_layout(layout, device, widths))


def _fresh(columns: Mapping[str, Column], taken: frozenset[str] | set[str]) -> dict[str, str]:
    """A name that nothing else has, for the values of each column."""
    found = {name: f"{name} (host)" for name in columns}
    while not taken.isdisjoint(found.values()):
        found = {name: f"{value}'" for name, value in found.items()}
    return found


def _numeric(column: Column, values: str) -> Column:
    return Column(column.name, Field(values), None, "none", slots=column.slots, source=column.source)


def _device_layout(layout: Layout, columns: Sequence[Column], widths: Mapping[str, int]) -> Layout:
    read = {name for c in columns for name in fields_read(c)}
    dtypes = {VALUES} | {p.dtype for name, p in layout.places.items() if name in read}
    places = {name: p for name, p in layout.places.items() if p.dtype in dtypes}
    end = layout.widths.get(VALUES, 0)
    for name, width in widths.items():
        places[name] = Place(VALUES, end, width)
        end += width
    kept = {dtype: width for dtype, width in layout.widths.items() if dtype in dtypes}
    return Layout(layout.rows, places, kept | {VALUES: end}, {n: p for n, p in layout.ragged.items() if n in read})


class HostColumns:
    """The columns of one layout that the host pools. Facts: any thread may run them at any time.

    layout: what the device gets.
    """

    def __init__(self, columns: Columns, divided: Divided) -> None:
        self.layout = divided.layout
        self._columns = columns
        self._places = [(b.name, divided.layout.places[b.name]) for b in divided.host.buffers]

    def run(self, packed: Packed, values: Array) -> int:
        """Write each column's [B, W] to its place in a batch's float32 buffer; gives the ids outside their tables.

        Facts: nothing before the first of these places is touched.
        """
        rows = packed.rows
        out = {
            name: values[rows * p.start : rows * (p.start + p.width)].reshape(rows, p.width) for name, p in self._places
        }
        return self._columns.run(packed, out)


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
        """Enqueues the kernel. Facts: `sources` hold the host's values."""
        self._device.launch(sources, capacity, outputs, status, tiles)

    def diagnose(self, packed: Packed) -> IdRangeError:
        """The error that names every id outside its table, wherever that lies."""
        return diagnose.outside(self._columns, self._program, self.layout, packed)

    def run(self, packed: Packed, out: Mapping[str, Array]) -> int:
        """Write every slot of every buffer; gives the number of ids that the policy `zero` replaced.

        Errors: IdRangeError naming column, row, value and bound, under the policy `error`.
        """
        layout = self.host.layout
        values = np.empty(packed.rows * layout.widths[VALUES], np.float32)
        given = packed.buffers.get(VALUES)
        if given is not None:
            values[: given.size] = given
        outside = self.host.run(packed, values)
        ends = {place.offsets for place in layout.ragged.values()}
        sent = replace(
            packed,
            buffers={t: b for t, b in packed.buffers.items() if t in layout.widths} | {VALUES: values},
            ragged={n: v for n, v in packed.ragged.items() if n in layout.ragged},
            offsets={n: v for n, v in packed.offsets.items() if n in ends},
        )
        outside += self._device.run(sent, out)
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
