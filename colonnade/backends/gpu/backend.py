"""The gpu backend: all columns of a program in one launch of a Triton kernel."""

from __future__ import annotations

from pathlib import Path

import torch

from colonnade.backends.gpu.columns import GpuColumns
from colonnade.core.batch import Layout
from colonnade.errors import OptionError
from colonnade.ir.column import ID_POLICIES, fields_read
from colonnade.ir.program import Program, Weights


class GpuBackend:
    """Runs columns on a CUDA device; `interpret` runs the same kernels by Triton's interpreter, on the CPU."""

    name = "gpu"

    def __init__(self, *, interpret: bool = False) -> None:
        self._interpret = interpret
        self._device = torch.device("cpu" if interpret else "cuda")

    def compile(
        self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int
    ) -> GpuColumns:
        """Upload the tables and descriptors of the columns whose fields lie in `layout`, and generate their kernel.

        Errors: GraphError naming a column that the gpu cannot run; OptionError.
        """
        if id_policy not in ID_POLICIES or threads < 1:
            raise OptionError("an id policy or a number of threads that is none", got=f"{id_policy!r}, {threads}")
        columns = [c for c in program.columns if set(fields_read(c)) <= layout.places.keys()]
        return GpuColumns(
            columns,
            program,
            weights,
            layout,
            id_policy=id_policy,
            device=self._device,
            interpret=self._interpret,
        )

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        """Nothing travels: Triton keeps what it compiled in a cache of its own."""
        return ()

    def import_compiled(self, folder: Path) -> bool:
        """Nothing is needed."""
        return True
