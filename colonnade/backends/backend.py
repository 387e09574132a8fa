"""What a backend is: it compiles the columns of a program; the dense rest is torch's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from colonnade.core.batch import Layout, Packed, Place
from colonnade.errors import GraphError
from colonnade.ir.column import fields_read
from colonnade.ir.program import Program, Weights

Array = npt.NDArray[Any]


class Columns(Protocol):
    """The compiled columns of a program that share one batch symbol."""

    @property
    def layout(self) -> Layout:
        """The fields it reads, and their places."""

    def run(self, packed: Packed, out: Mapping[str, Array]) -> int:
        """Write every slot of every buffer; gives the number of ids that the policy `zero` replaced.

        Shapes: out[buffer] is `[B, width]`, rows may be strided (last dim contiguous).
        Errors: IdRangeError naming column, row, value and bound, under the policy `error`.
        """


class Backend(Protocol):
    """A way to run columns."""

    name: str

    def compile(self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int) -> Columns:
        """Compile the columns whose fields lie in `layout`. Facts: every tensor in `weights` is only read."""

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        """Write compiled code that an artifact carries into a folder; gives the files."""

    def import_compiled(self, folder: Path) -> bool:
        """Let `compile` take code from an artifact's folder; gives whether it fits this machine."""


def layouts(program: Program) -> tuple[Layout, ...]:
    """One layout a batch symbol, with the fields that columns read.

    Facts: fields of one dtype and shape are neighbours, otherwise they stand in the order of the signature.
    """
    read = {name for c in program.columns for name in fields_read(c)}
    by_rows: dict[str, tuple[Any, dict[str, Place], dict[str, int]]] = {}
    for item in sorted(program.inputs, key=lambda i: str(i.shape[1:])):
        if item.name not in read:
            continue
        rows, *rest = item.shape
        if not all(isinstance(d, int) for d in rest):
            raise GraphError("a column reads an input of unknown width", where=item.name, got=str(item.shape))
        width = 1
        for d in rest:
            assert isinstance(d, int)
            width *= d
        _, places, widths = by_rows.setdefault(str(rows), (rows, {}, {}))
        start = widths.get(item.dtype, 0)
        places[item.name] = Place(item.dtype, start, width)
        widths[item.dtype] = start + width
    return tuple(Layout(rows, places, widths) for rows, places, widths in by_rows.values())
