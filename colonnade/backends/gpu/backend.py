"""The gpu backend: all columns of a program in one launch of a Triton kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from colonnade.backends.gpu import accelerator
from colonnade.backends.gpu.columns import GpuColumns
from colonnade.backends.gpu.runner import GpuRunner
from colonnade.core.batch import Layout
from colonnade.errors import OptionError
from colonnade.ir.column import ID_POLICIES, fields_read
from colonnade.ir.program import Program, Weights


class GpuBackend:
    """Runs columns on a CUDA device; `interpret` runs the same kernels by Triton's interpreter, on the CPU."""

    name = "gpu"

    def __init__(self, *, interpret: bool = False) -> None:
        self._interpret = interpret
        self._device = torch.device("cpu") if interpret else accelerator.device()

    def compile(
        self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int
    ) -> GpuColumns:
        """Upload the tables and descriptors of the columns whose fields lie in `layout`, and generate their kernel.

        Errors: GraphError naming a column that the gpu cannot run; OptionError.
        """
        if id_policy not in ID_POLICIES or threads < 1:
            raise OptionError("an id policy or a number of threads that is none", got=f"{id_policy!r}, {threads}")
        columns = [c for c in program.columns if set(fields_read(c)) <= layout.fields]
        return GpuColumns(
            columns,
            program,
            weights,
            layout,
            id_policy=id_policy,
            device=self._device,
            interpret=self._interpret,
        )

    def prepare(
        self, program: Program, weights: Weights, layouts: Sequence[Layout], *, id_policy: str, threads: int
    ) -> GpuRunner:
        """The columns of every layout and the dense rest, on the device.

        Errors: OptionError where the tables do not fit into its memory.
        """
        if not self._interpret:
            accelerator.check_memory(program, accelerator.free_memory(self._device))
        columns = [self.compile(program, weights, x, id_policy=id_policy, threads=threads) for x in layouts]
        return GpuRunner(program, weights, columns, device=self._device, id_policy=id_policy)

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        """Nothing travels: Triton keeps what it compiled in a cache of its own."""
        return ()

    def import_compiled(self, folder: Path) -> bool:
        """Nothing is needed."""
        return True
