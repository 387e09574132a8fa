"""Which columns share one evaluation of their ids, and where the rows they look up go.

Columns with the same ids, filters, weights and pooling are one unit: their ids are computed once. An embedding_dim over
`WIDEST` is cut into chunks, each a target of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from colonnade.core.batch import Layout
from colonnade.core.expr import Apply, Expr, walk
from colonnade.errors import GraphError, ShapeError, listed
from colonnade.ir.column import Column, fields_read
from colonnade.ir.evaluate import expands
from colonnade.ir.program import Program
from colonnade.ir.table import Table
from colonnade.ops.op import ExpandOp

WIDEST = 128
"""Values of a row that one program copies."""
MOST_SINGLE, MOST_POOLED = 8, 4
"""Targets of one unit: each takes registers of its own where rows are added up."""

SINGLE, SPREAD, LANES, TILES, NUMERIC = "single", "spread", "lanes", "tiles", "numeric"
"""One element a row; every element in a place of its own; elements added up, a batch row a lane, or in tiles of equal
numbers of elements; the values themselves.
"""
MOST_LANES = 16
"""Elements a batch row up to which each row is a lane."""


@dataclass(frozen=True)
class Target:
    """One chunk of one slot of one column.

    block: the power of two that `dim` values are padded to.   exact: whether `dim` and the table's row are that block.
    alignment: values by which every address of a row is a multiple, 1, 2 or 4.   first: place of the chunk in a row.
    counts: whether ids outside the table are counted here: once a column.
    """

    column: int
    table: str
    table_dtype: str
    output: int
    offset: int
    first: int
    dim: int
    row_dim: int
    block: int
    exact: bool
    alignment: int
    default_row: int | None
    counts: bool

    @property
    def shape(self) -> tuple[str, int, int, bool, int, bool]:
        """What of it is code."""
        return self.table_dtype, self.output, self.block, self.exact, self.alignment, self.counts


@dataclass(frozen=True)
class Unit:
    """Columns that share their ids, the first of which stands for all.

    width: elements a batch row of dense fields.   offsets: the input that holds the offsets of ragged ones.
    """

    kind: str
    column: Column
    width: int
    offsets: str | None
    targets: tuple[Target, ...]


def units_of(columns: Sequence[Column], program: Program, layout: Layout) -> tuple[Unit, ...]:
    """The units of columns.

    Errors: GraphError that names a column which the gpu cannot run; ShapeError that lists every slot of another width.
    """
    _check_slots(columns, program, layout)
    outputs = {b.name: k for k, b in enumerate(program.buffers)}
    widths = {b.name: b.width for b in program.buffers}
    tables = {t.name: t for t in program.tables}
    groups: dict[tuple[object, ...], list[tuple[Column, Target]]] = {}
    for index, column in enumerate(columns):
        form = form_of(column, layout)
        for target in _targets(index, column, tables.get(column.table or ""), outputs, widths.__getitem__):
            key = (form, column.ids, column.filters, column.weights, column.pooling, column.ids_proven)
            has_default = column.default_row is not None
            groups.setdefault((*key, has_default, target.shape), []).append((column, target))
    made = []
    for members in groups.values():
        column = members[0][0]
        kind, width, offsets = form_of(column, layout)
        most = MOST_POOLED if kind in (LANES, TILES) else MOST_SINGLE
        for at in range(0, len(members), most):
            targets = tuple(target for _, target in members[at : at + most])
            made.append(Unit(kind, column, width, offsets, targets))
    return tuple(made)


def _check_slots(columns: Sequence[Column], program: Program, layout: Layout) -> None:
    """A kernel writes what a column makes, however wide its slot is."""
    dims = {t.name: t.embedding_dim for t in program.tables}
    got, want = [], []
    for column in columns:
        kind, width, _ = form_of(column, layout)
        made = dims.get(column.table or "", 1) * (width if kind in (SPREAD, NUMERIC) else 1)
        wrong = [slot for slot in column.slots if slot.width != made]
        got += [f"column {column.name!r}: {slot.width} in buffer {slot.output!r}" for slot in wrong]
        want += [str(made) for _ in wrong]
    if got:
        raise ShapeError("slots of another width than their columns", got=listed(got), want=listed(want))


def form_of(column: Column, layout: Layout) -> tuple[str, int, str | None]:
    """A column's kind, width and offsets. Errors: GraphError where the gpu cannot run it."""
    has_tokens = any(expands(e) for e in (column.ids, *column.filters))
    where = f"column {column.name!r}"
    width, offsets = _extent(column, layout)
    if column.table is None:
        if column.weights is not None or has_tokens or offsets is not None:
            raise GraphError("a numeric column has neither weights nor tokens, and rows of one length", where=where)
        return NUMERIC, width, offsets
    if column.weights is not None and expands(column.weights):
        raise GraphError("weights are one an element, and no tokens", where=where)
    if has_tokens and not expands(column.ids):
        raise GraphError("a filter looks at tokens, the ids do not", where=where)
    if column.pooling == "none":
        if has_tokens or offsets is not None:
            raise GraphError("a column whose rows differ in length needs a pooling", where=where, got=column.pooling)
        return SPREAD, width, offsets
    if has_tokens or (offsets is None and 1 < width <= MOST_LANES):
        return LANES, width, offsets
    return (SINGLE if offsets is None and width == 1 else TILES), width, offsets


def expansion_of(expr: Expr) -> Apply | None:
    """The expansion inside an expression."""
    return next((e for e in walk(expr) if isinstance(e, Apply) and isinstance(e.op, ExpandOp)), None)


def _extent(column: Column, layout: Layout) -> tuple[int, str | None]:
    """The width of its dense fields, or the offsets of its ragged ones."""
    fields = fields_read(column)
    extents = {(0 if n in layout.ragged else layout.places[n].width, layout.offsets_of(n)) for n in fields}
    if len(extents) != 1:
        raise GraphError("the fields of a column have different numbers of elements", where=f"column {column.name!r}")
    return extents.pop()


def _targets(
    index: int, column: Column, table: Table | None, outputs: Mapping[str, int], width: Callable[[str], int]
) -> Iterator[Target]:
    """One a slot and chunk."""
    row_dim = table.embedding_dim if table is not None else 1
    for slot in column.slots:
        for first in range(0, row_dim, WIDEST):
            dim = min(WIDEST, row_dim - first)
            alignment = math.gcd(4, row_dim, slot.offset + first, width(slot.output))
            block = 1 << (dim - 1).bit_length()
            yield Target(
                column=index,
                table=table.name if table is not None else "",
                table_dtype=table.dtype if table is not None else "",
                output=outputs[slot.output],
                offset=slot.offset + first,
                first=first,
                dim=dim,
                row_dim=row_dim,
                block=block,
                exact=dim == block == row_dim,
                alignment=alignment,
                default_row=column.default_row,
                counts=slot is column.slots[0] and first == 0,
            )
