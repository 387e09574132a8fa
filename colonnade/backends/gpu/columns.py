"""The columns of a program that share one batch symbol, compiled: descriptors and tables on the device, one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.gpu import diagnose
from colonnade.backends.gpu.emit import Memory
from colonnade.backends.gpu.schedule import NUM_WARPS, scheduled
from colonnade.backends.gpu.source import load
from colonnade.backends.gpu.structure import BUFFERS, write
from colonnade.backends.gpu.units import units_of
from colonnade.config import settings
from colonnade.core.batch import Layout, Packed
from colonnade.errors import IdRangeError
from colonnade.ir.column import Column
from colonnade.ir.program import Program, Weights
from colonnade.ops.op import torch_dtype

Array = npt.NDArray[Any]
HEADER_WORDS = 8
TEXT_PADDING = 16
"""Bytes past the end of the strings that a kernel may read."""


@dataclass(frozen=True)
class Sources:
    """A packed batch on the device.

    header: int64[8], the number of rows first.   buffers: 1-D, one a dtype, as in `Packed`.
    string_data: uint8, 8-byte aligned, readable 16 bytes past its end; its size is a multiple of 8.
    """

    header: torch.Tensor
    buffers: Mapping[str, torch.Tensor]
    string_offsets: torch.Tensor
    string_data: torch.Tensor


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
    ) -> None:
        self.layout = layout
        self._columns = tuple(c for c in columns if c.slots)
        self._program = program
        self._errors = id_policy == "error"
        self._device = device
        self._kept: list[torch.Tensor] = []
        self._buffers = tuple(b.name for b in program.buffers)
        tables = self._uploaded(weights)
        bounds = {t.name: t.rows for t in program.tables}
        memory = Memory(self._place)
        units = units_of(self._columns, program, layout)
        written = [write(unit, layout, tables, bounds, memory) for unit in units]
        self.schedule, words = scheduled(units, written, [b.width for b in program.buffers])
        self._units = torch.tensor(words, dtype=torch.int64, device=device)
        self._missing = {d: torch.zeros(1, dtype=torch_dtype(d), device=device) for d in BUFFERS}
        self._kernel = None
        if units:
            folder = settings().cache_dir / "gpu"
            self._kernel = load(self.schedule.text, folder, interpret=interpret).columns

    def _uploaded(self, weights: Weights) -> dict[str, int]:
        used = {c.table for c in self._columns if c.table is not None}
        return {name: self._place(weights.tables[name]) for name in sorted(used)}

    def _place(self, array: Array) -> int:
        """A copy on the device; its address."""
        held = torch.from_numpy(np.array(array)).to(self._device)
        if held.numel() == 0:
            held = torch.zeros(16, dtype=torch.uint8, device=self._device)
        self._kept.append(held)
        return held.data_ptr()

    def launch(
        self, sources: Sources, capacity: int, outputs: Mapping[str, torch.Tensor], status: torch.Tensor
    ) -> None:
        """Enqueues one kernel that writes every slot of rows below `sources.header[0]`, which is at most `capacity`.

        Shapes: outputs[buffer] is float32 [capacity, width], contiguous and 16-byte aligned; status is int64[1]: the
        number of ids outside their tables is added to it.
        Facts: nothing is allocated and nothing waits, so that a CUDA graph can capture it.
        """
        if self._kernel is None or capacity == 0:
            return
        ends = self.schedule.ends(capacity)
        arguments: list[Any] = [sources.header, self._units, status]
        arguments += [sources.buffers.get(d, self._missing[d]) for d in BUFFERS]
        arguments += [sources.string_offsets, sources.string_data.view(torch.uint64)]
        for name, stride in zip(self._buffers, self.schedule.strides, strict=True):
            arguments += [outputs[name], stride]
        for group, end in zip(self.schedule.groups, ends, strict=True):
            arguments += [group.first, len(group.units), end]
        self._kernel[(ends[-1],)](*arguments, num_warps=NUM_WARPS)

    def run(self, packed: Packed, out: Mapping[str, Array]) -> int:
        """Write every slot of every buffer; gives the number of ids that the policy `zero` replaced.

        Errors: IdRangeError naming column, row, value and bound, under the policy `error`.
        """
        if packed.rows == 0 or self._kernel is None:
            return 0
        sources = self._sources(packed)
        outputs = {
            name: torch.from_numpy(np.ascontiguousarray(out[name])).to(self._device, copy=True)
            for name in self._buffers
        }
        status = torch.zeros(1, dtype=torch.int64, device=self._device)
        self.launch(sources, packed.rows, outputs, status)
        outside = int(status)
        if outside and self._errors:
            raise self.diagnose(packed)
        for name, value in outputs.items():
            out[name][...] = value.cpu().numpy()
        return outside

    def diagnose(self, packed: Packed) -> IdRangeError:
        """The error that names every id outside its table, found again on the host."""
        return diagnose.outside(self._columns, self._program, self.layout, packed)

    def _sources(self, packed: Packed) -> Sources:
        header = np.zeros(HEADER_WORDS, np.int64)
        header[0] = packed.rows
        data = np.zeros(-(-len(packed.string_data) // 8) * 8 + TEXT_PADDING, np.uint8)
        data[: len(packed.string_data)] = packed.string_data
        buffers = {name: self._put(buffer) for name, buffer in packed.buffers.items()}
        return Sources(self._put(header), buffers, self._put(packed.string_offsets), self._put(data))

    def _put(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(self._device)
