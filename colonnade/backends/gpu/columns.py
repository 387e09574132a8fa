"""The columns of a program that share one batch symbol, compiled: descriptors and tables on the device, one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.gpu import diagnose, header
from colonnade.backends.gpu.emit import Memory
from colonnade.backends.gpu.kinds.writer import BUFFERS, Places
from colonnade.backends.gpu.mapped import mapped
from colonnade.backends.gpu.schedule import OPTIONS, scheduled
from colonnade.backends.gpu.source import load
from colonnade.backends.gpu.structure import write
from colonnade.backends.gpu.units import units_of
from colonnade.config import settings
from colonnade.core.batch import Layout, Packed
from colonnade.core.identity import window_of
from colonnade.core.strings import Strings
from colonnade.errors import IdRangeError
from colonnade.ir.column import Column
from colonnade.ir.program import Program, Weights
from colonnade.ops.op import torch_dtype

Array = npt.NDArray[Any]
TEXT_PADDING = 16
"""Bytes past the end of the strings that a kernel may read."""


@dataclass(frozen=True)
class Sources:
    """A packed batch on the device.

    header: int64, as `Header` says; it holds the addresses of ragged fields, which lie anywhere.   buffers: 1-D, one a
    dtype, as in `Packed`.   string_data: uint8, 8-byte aligned, readable 16 bytes past its end; its size is a multiple
    of 8.   work, arrivals: as `GpuColumns.workspace` says; no two launches at a time may share them.   kept: what the
    header points to.
    """

    header: torch.Tensor
    buffers: Mapping[str, torch.Tensor]
    string_offsets: torch.Tensor
    string_data: torch.Tensor
    work: torch.Tensor | None = None
    arrivals: torch.Tensor | None = None
    kept: tuple[torch.Tensor, ...] = ()


class GpuColumns:
    """The columns of one layout. Facts: it holds no state of a request; any thread may launch it on any stream."""

    def __init__(
        self,
        columns: Sequence[Column],
        program: Program,
        weights: Weights,
        layout: Layout,
        *,
        id_policy: str,
        device: torch.device,
        interpret: bool,
        in_host: frozenset[str] = frozenset(),
    ) -> None:
        self.layout = layout
        self._columns = tuple(c for c in columns if c.slots)
        self._program = program
        self._errors = id_policy == "error"
        self._device = device
        self._kept: list[torch.Tensor] = []
        self._buffers = tuple(b.name for b in program.buffers)
        bounds = {t.name: t.rows for t in program.tables}
        used = sorted({c.table for c in self._columns if c.table is not None})
        windows = {n: found for n in used if (found := window_of(weights.tables[n])) is not None}
        tables = self._uploaded({n: weights.tables[n] for n in used if n not in windows}, in_host)
        tables |= {n: self._place(vector) + 4 * (len(vector) // 2) for n, vector in windows.items()}
        places = Places(layout, tables, bounds, header.words_of(layout), frozenset(windows))
        memory = Memory(self._place)
        units = units_of(self._columns, program, layout)
        written = [write(unit, places, memory) for unit in units]
        widths = [b.width for b in program.buffers]
        self.schedule, words = scheduled(units, written, widths, header.prefix_of(layout))
        self.header = header.header_of(layout, self.schedule)
        self._units = torch.tensor(words, dtype=torch.int64, device=device)
        self._missing = {d: torch.zeros(1, dtype=torch_dtype(d), device=device) for d in (*BUFFERS, "uint8")}
        self._kernel = None
        if units:
            folder = settings().cache_dir / "gpu"
            self._kernel = load(self.schedule.text, folder, interpret=interpret).columns

    def _uploaded(self, tables: Mapping[str, Array], in_host: frozenset[str]) -> dict[str, int]:
        """The address of each table's rows; a kernel reads those of `in_host` over the bus."""
        return {n: (self._map if n in in_host else self._place)(rows) for n, rows in tables.items()}

    def _map(self, array: Array) -> int:
        """A copy on the host; the device reads it at the same address."""
        self._kept.append(mapped(array, self._device))
        return self._kept[-1].data_ptr()

    def _place(self, array: Array) -> int:
        """A copy on the device; its address."""
        held = torch.from_numpy(np.array(array)).to(self._device)
        if held.numel() == 0:
            held = torch.zeros(16, dtype=torch.uint8, device=self._device)
        self._kept.append(held)
        return held.data_ptr()

    def workspace(self, tiles: int) -> tuple[int, int]:
        """Sizes of a launch's `work` (float32) and `arrivals` (int32, zeros before its first launch)."""
        return 2 * self.schedule.work * tiles, tiles if self.schedule.tiled else 0

    def launch(
        self,
        sources: Sources,
        capacity: int,
        outputs: Mapping[str, torch.Tensor],
        status: torch.Tensor,
        tiles: int = 0,
    ) -> None:
        """Enqueues one kernel that writes every slot of the rows of a batch, at most `capacity`.

        Shapes: outputs[buffer] is float32 [capacity, width], contiguous and 16-byte aligned; status is int64[1]: the
        number of ids outside their tables is added to it.
        tiles: at least the number of tiles that `header.write` gave.
        Facts: nothing is allocated and nothing waits, so that a CUDA graph can capture it. The current device must be
        that of the columns: a kernel goes to the current one's stream.
        """
        if self._kernel is None or capacity == 0:
            return
        *numbers, grid = self.schedule.numbers(capacity, tiles)
        if grid == 0:
            return
        arguments: list[Any] = [sources.header, self._units, status]
        arguments += [self._missing["float32"] if sources.work is None else sources.work]
        arguments += [self._missing["int32"] if sources.arrivals is None else sources.arrivals]
        arguments += [sources.buffers.get(d, self._missing[d]) for d in BUFFERS]
        arguments += [sources.string_offsets, sources.string_data.view(torch.uint64)]
        for name, stride in zip(self._buffers, self.schedule.strides, strict=True):
            arguments += [outputs[name], stride]
        with np.errstate(all="ignore"):  # numpy, which the interpreter computes with, warns where a device does not
            self._kernel[(grid,)](*arguments, *numbers, **OPTIONS)

    def run(self, packed: Packed, out: Mapping[str, Array]) -> int:
        """Write every slot of every buffer; gives the number of ids that the policy `zero` replaced.

        Errors: IdRangeError naming column, row, value and bound, under the policy `error`.
        """
        if packed.rows == 0 or self._kernel is None:
            return 0
        sources, tiles = self.upload(packed)
        outputs = {
            name: torch.from_numpy(np.ascontiguousarray(out[name])).to(self._device, copy=True)
            for name in self._buffers
        }
        status = torch.zeros(1, dtype=torch.int64, device=self._device)
        with torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            self.launch(sources, packed.rows, outputs, status, tiles)
        outside = int(status)
        if outside and self._errors:
            raise self.diagnose(packed)
        for name, value in outputs.items():
            out[name][...] = value.cpu().numpy()
        return outside

    def diagnose(self, packed: Packed) -> IdRangeError:
        """The error that names every id outside its table, found again on the host."""
        return diagnose.outside(self._columns, self._program, self.layout, packed)

    def upload(self, packed: Packed) -> tuple[Sources, int]:
        """A batch on the device, in memory of its own, and its number of tiles: where the kernel alone is run."""
        addresses: dict[str, tuple[int, ...]] = {}
        ragged = []
        for name, values in packed.ragged.items():
            parts = [values.offsets, _padded(values.data)] if isinstance(values, Strings) else [values]
            ragged += [self._put(part) for part in parts]
            addresses[name] = tuple(t.data_ptr() for t in ragged[-len(parts) :])
        for name, offsets in packed.offsets.items():
            ragged.append(self._put(offsets))
            addresses[name] = (ragged[-1].data_ptr(),)
        words = np.zeros(self.header.num_words, np.int64)
        tiles = self.header.write(words, packed, addresses)
        work, arrivals = self.workspace(tiles)
        sources = Sources(
            header=self._put(words),
            buffers={name: self._put(buffer) for name, buffer in packed.buffers.items()},
            string_offsets=self._put(packed.string_offsets),
            string_data=self._put(_padded(packed.string_data)),
            work=torch.full((work,), float("nan"), dtype=torch.float32, device=self._device),
            arrivals=torch.zeros(arrivals, dtype=torch.int32, device=self._device),
            kept=tuple(ragged),
        )
        return sources, tiles

    def _put(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(self._device)


def _padded(data: Array) -> Array:
    """Bytes with room after them that a kernel may read."""
    padded = np.zeros(-(-len(data) // 8) * 8 + TEXT_PADDING, np.uint8)
    padded[: len(data)] = data
    return padded
