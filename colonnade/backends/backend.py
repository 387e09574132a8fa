"""What a backend is: it compiles the columns of a program, and runs them with the dense rest, which is torch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from colonnade.backends.arena import Room
from colonnade.backends.feed import Request
from colonnade.core import dims
from colonnade.core.batch import Layout, Packed, Place, RaggedPlace
from colonnade.core.dims import Dim
from colonnade.errors import GraphError
from colonnade.ir.column import fields_read
from colonnade.ir.program import Input, Program, Weights, batch_dim

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


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """What a request came to.

    outputs: by name, torch tensors where the request held one, else numpy arrays; all owned by the caller.
    zeroed: ids outside their table that the policy `zero` replaced.
    nanoseconds: the time of each part that the runner tells apart, in order.
    """

    outputs: dict[str, Any]
    zeroed: int
    nanoseconds: Mapping[str, int]


class Runner(Protocol):
    """A program with one set of weights, ready to answer. Facts: any thread may use it at any time.

    dense_inputs: the inputs that requests are to hold as tensors.   notes: what costs time and could be otherwise.
    table_places: `host` or `device`, by table.
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """In words, one a cause."""

    @property
    def table_places(self) -> Mapping[str, str]:
        """Where each table lies."""

    @property
    def dense_inputs(self) -> frozenset[str]:
        """The inputs that the dense rest reads."""

    def reserve(self) -> Room | None:
        """Memory that the next request is to be packed into, or None where that saves nothing; to be closed."""

    def run(self, request: Request, room: Room | None = None) -> Outcome:
        """The answer to a request.

        room: from `reserve`, and what the request was read with; it stays reserved.
        Errors: IdRangeError naming column, row, value and bound, under the policy `error`; GraphError where the dense
        rest refuses the request.
        """


class Backend(Protocol):
    """A way to run programs."""

    name: str

    def compile(self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int) -> Columns:
        """Compile the columns whose fields lie in `layout`. Facts: every tensor in `weights` is only read."""

    def prepare(
        self, program: Program, weights: Weights, layouts: Sequence[Layout], *, id_policy: str, threads: int
    ) -> Runner:
        """The columns of every layout, compiled, and the dense rest. Facts: `weights` are only read."""

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        """Write compiled code that an artifact carries into a folder; gives the files."""

    def import_compiled(self, folder: Path) -> bool:
        """Let `compile` take code from an artifact's folder; gives whether it fits this machine."""


def layouts(program: Program) -> tuple[Layout, ...]:
    """One layout a batch symbol, with the fields that columns read.

    Facts: dense fields of one dtype and shape are neighbours, otherwise they stand in the order of the signature; the
    layouts of inputs' elements come last.
    """
    read = {name for c in program.columns for name in fields_read(c)}
    inputs = {i.name: i for i in program.inputs}
    by_rows: dict[str, tuple[Dim, list[Input]]] = {}
    for item in sorted(program.inputs, key=lambda i: (i.is_elements, str(i.shape[1:]))):
        if item.name in read:
            rows = batch_dim(item, inputs)
            by_rows.setdefault(str(rows), (rows, []))[1].append(item)
    return tuple(_layout(rows, items) for rows, items in by_rows.values())


def _layout(rows: Dim, items: Sequence[Input]) -> Layout:
    places: dict[str, Place] = {}
    widths: dict[str, int] = {}
    ragged: dict[str, RaggedPlace] = {}
    for item in items:
        if item.offsets is not None:
            ragged[item.name] = RaggedPlace(item.dtype, item.offsets)
            continue
        width = dims.prod(item.shape[1:])
        if not isinstance(width, int):
            raise GraphError("a column reads an input of unknown width", where=item.name, got=str(item.shape))
        start = widths.get(item.dtype, 0)
        places[item.name] = Place(item.dtype, start, width)
        widths[item.dtype] = start + width
    return Layout(rows, places, widths, ragged)
