"""The gpu backend: all columns of a program in one launch of a Triton kernel, but for those that the host pools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from colonnade.backends.cpu import CpuBackend
from colonnade.backends.gpu import accelerator, memory
from colonnade.backends.gpu.columns import GpuColumns
from colonnade.backends.gpu.host_tables import PlacedColumns, divide, placed_columns
from colonnade.backends.gpu.placement import AUTO, POOLED, Placement, fitting, place
from colonnade.backends.gpu.runner import GpuRunner
from colonnade.core.batch import Layout
from colonnade.errors import OptionError
from colonnade.ir.column import ID_POLICIES, fields_read
from colonnade.ir.program import Program, Weights


class GpuBackend:
    """Runs columns on a CUDA device; `interpret` runs the same kernels by Triton's interpreter, on the CPU.

    table_budget: bytes of tables that the device may hold; the others lie in host memory. None: it holds all.
    host_tables: `pooled` (the host pools the columns of those tables), `bus` (the kernel reads their rows there) or
    `auto` (what costs less with the threads given).
    Units: bytes.
    """

    name = "gpu"

    def __init__(self, *, interpret: bool = False, table_budget: int | None = None, host_tables: str = AUTO) -> None:
        way = POOLED if host_tables == AUTO else host_tables
        place(_NOTHING, table_budget, way)  # refuses what is no budget before anything is looked for
        self._interpret = interpret
        self._budget = table_budget
        self._way = host_tables
        self._device = torch.device("cpu") if interpret else accelerator.device()

    def placement(self, program: Program, threads: int = 1) -> Placement:
        """Where each table of a program lies, and how those in host memory are read."""
        if self._way != AUTO:
            return place(program, self._budget, self._way)
        return fitting(program, self._budget, threads, memory.host_bytes())

    def compile(
        self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int
    ) -> GpuColumns | PlacedColumns:
        """Upload the tables and descriptors of the columns whose fields lie in `layout`, and generate their kernel.

        threads: workers for columns that the host pools.
        Errors: GraphError naming a column that the gpu cannot run; OptionError.
        """
        if id_policy not in ID_POLICIES or threads < 1:
            raise OptionError("an id policy or a number of threads that is none", got=f"{id_policy!r}, {threads}")
        placement = self.placement(program, threads)
        in_host = placement.host
        where: dict[str, Any] = {"id_policy": id_policy, "device": self._device, "interpret": self._interpret}
        divided = divide(program, layout, in_host) if placement.way == POOLED else None
        if divided is not None:
            return placed_columns(program, weights, layout, divided, threads=threads, **where)
        columns = [c for c in program.columns if set(fields_read(c)) <= layout.fields]
        return GpuColumns(columns, program, weights, layout, in_host=in_host, **where)

    def prepare(
        self, program: Program, weights: Weights, layouts: Sequence[Layout], *, id_policy: str, threads: int
    ) -> GpuRunner:
        """The columns of every layout and the dense rest, on the device.

        Errors: OptionError where the tables that lie there do not fit into its memory.
        """
        placement = self.placement(program, threads)
        if not self._interpret:
            memory.check_memory(program, memory.free_memory(self._device), placement.host)
        with memory.uploading(program, self._device, placement.host):
            columns = [self.compile(program, weights, x, id_policy=id_policy, threads=threads) for x in layouts]
            hosts = [c.host if isinstance(c, PlacedColumns) else None for c in columns]
            return GpuRunner(
                program,
                weights,
                columns,
                device=self._device,
                id_policy=id_policy,
                hosts=hosts,
                table_places=placement.places,
            )

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        """The host's engine, where it may pool; Triton keeps what it compiled in a cache of its own."""
        return () if self._budget is None else CpuBackend().export_compiled(folder)

    def import_compiled(self, folder: Path) -> bool:
        """Look for the host's engine, where it may pool; nothing else is needed."""
        return True if self._budget is None else CpuBackend().import_compiled(folder)


_NOTHING = Program((), (), (), (), (), ())
