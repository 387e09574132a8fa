"""The cpu backend: all columns of a program in one call of the compiled engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colonnade.backends.cpu.cache import ENGINE
from colonnade.backends.cpu.columns import CpuColumns
from colonnade.backends.cpu.descriptor import lower_columns
from colonnade.backends.cpu.flow import FlowRunner
from colonnade.backends.host_runner import HostRunner
from colonnade.backends.tape.tape import TAPES
from colonnade.core.batch import Layout
from colonnade.errors import OptionError
from colonnade.ir.column import ID_POLICIES, fields_read
from colonnade.ir.program import Program, Weights


class CpuBackend:
    """Runs columns by the numba engine."""

    name = "cpu"

    def compile(
        self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int
    ) -> CpuColumns:
        """Lower the columns whose fields lie in `layout`; compiles the engine where no cache holds it.

        threads: workers, the caller among them. Errors: GraphError naming a column that the engine cannot run.
        """
        if id_policy not in ID_POLICIES or threads < 1:
            raise OptionError("an id policy or a number of threads that is none", got=f"{id_policy!r}, {threads}")
        fields = layout.fields
        columns = [c for c in program.columns if fields.issuperset(fields_read(c))]
        compiled = ENGINE.warm()
        lowered = lower_columns(columns, program, weights, layout, compiled.tiles)
        return CpuColumns(lowered, layout, compiled, id_policy, threads)

    def prepare(
        self, program: Program, weights: Weights, layouts: Sequence[Layout], *, id_policy: str, threads: int
    ) -> HostRunner:
        """The columns of every layout and the dense rest, on the host."""
        columns = [self.compile(program, weights, x, id_policy=id_policy, threads=threads) for x in layouts]
        return FlowRunner(program, weights, columns, threads)

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        """The engine's code for this machine's CPU and for x86-64-v3."""
        return (*ENGINE.export_code(folder), *TAPES.export_code(folder))

    def import_compiled(self, folder: Path) -> bool:
        """Look for the engine's code in a folder too."""
        TAPES.import_code(folder)
        return ENGINE.import_code(folder)
