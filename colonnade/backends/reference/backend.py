"""The reference backend: every column by itself, on whole flat tensors.

Legend: B batch rows, E elements, D embedding_dim.

An id outside its table is an error under the policy `error`. Under `zero` it stands for a vector of zeros, which still
counts in the divisor of mean and sqrtn and as an element of its row (so that the row is not empty). Without pooling,
zeros stand in the place of an element that a filter drops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from colonnade.backends.host_runner import HostRunner
from colonnade.core import quantize
from colonnade.core.batch import Layout, Packed
from colonnade.core.expr import Apply, walk
from colonnade.core.pooling import pool
from colonnade.core.strings import Strings
from colonnade.errors import GraphError, IdRangeError, listed
from colonnade.ir.column import Column, fields_read
from colonnade.ir.evaluate import Elements, elements_of
from colonnade.ir.program import Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.op import ExpandOp, Value

Array = npt.NDArray[Any]


class ReferenceBackend:
    """Runs columns by the ops' `reference`."""

    name = "reference"

    def compile(
        self, program: Program, weights: Weights, layout: Layout, *, id_policy: str, threads: int
    ) -> ReferenceColumns:
        """The columns whose fields lie in `layout`; `threads` does not matter here."""
        fields = layout.fields
        columns = tuple(c for c in program.columns if c.slots and fields.issuperset(fields_read(c)))
        return ReferenceColumns(layout, columns, {t.name: t for t in program.tables}, weights, id_policy)

    def prepare(
        self, program: Program, weights: Weights, layouts: Sequence[Layout], *, id_policy: str, threads: int
    ) -> HostRunner:
        """The columns of every layout and the dense rest, on the host."""
        columns = [self.compile(program, weights, x, id_policy=id_policy, threads=threads) for x in layouts]
        return HostRunner(program, weights, columns)

    def export_compiled(self, folder: Path) -> tuple[Path, ...]:
        """Nothing is compiled."""
        return ()

    def import_compiled(self, folder: Path) -> bool:
        """Nothing is needed."""
        return True


@dataclass(frozen=True)
class ReferenceColumns:
    """The columns of one layout."""

    layout: Layout
    columns: tuple[Column, ...]
    tables: Mapping[str, Table]
    weights: Weights
    id_policy: str

    def run(self, packed: Packed, out: Mapping[str, Array]) -> int:
        """Every slot of every buffer; gives the number of ids that the policy `zero` replaced."""
        fields = fields_of_batch(packed, self.layout)
        outside: list[str] = []
        replaced = 0
        vectors: list[tuple[Column, Array]] = []
        for column in self.columns:
            vector_BD, bad = self._vectors(column, fields, packed)
            vectors.append((column, vector_BD.numpy()))
            replaced += len(bad)
            outside += bad[:1]
        if outside and self.id_policy == "error":
            raise IdRangeError(
                f"{len(outside)} columns have an id outside their table",
                got=listed(outside),
                want="0 <= id < rows of the table",
                help="correct the input, or compile with the id policy 'zero'",
            )
        for column, vector in vectors:
            for slot in column.slots:
                out[slot.output][:, slot.offset : slot.offset + slot.width] = vector
        return replaced

    def _vectors(self, column: Column, fields: Mapping[str, Value], packed: Packed) -> tuple[torch.Tensor, list[str]]:
        """The column's `[B, W]` values, and every id outside the table in words."""
        names, num_rows = fields_read(column), packed.rows
        offsets = self.layout.offsets_of(names[0])
        lengths = None if offsets is None else torch.from_numpy(np.diff(packed.offsets[offsets]))
        elements = elements_of(column, {name: fields[name] for name in names}, num_rows, lengths)
        width = self.layout.places[names[0]].width if offsets is None else 0
        if offsets is not None and (column.table is None or column.pooling == "none"):
            raise GraphError("a ragged field needs a table and a pooling", where=column.name, got=column.pooling)
        if column.table is None:
            if column.weights is not None:
                raise GraphError("a numeric column has no weights", where=f"column {column.name!r}")
            return _spread(column, elements, elements.ids.float()[:, None], width, num_rows), []
        table = self.tables[column.table]
        ids_E = elements.ids.long()
        outside_E = (ids_E < 0) | (ids_E >= table.rows)
        bad = [
            f"column {column.name!r}, row {row}: id {value}, table {table.name!r} has {table.rows} rows"
            for row, value in zip(elements.rows[outside_E].tolist(), ids_E[outside_E].tolist(), strict=True)
        ]
        vectors_ED = self._rows(ids_E.masked_fill(outside_E, 0), table)
        vectors_ED[outside_E] = 0.0
        if column.pooling == "none":
            return _spread(column, elements, vectors_ED, width, num_rows), bad
        pooled_BD = pool(vectors_ED, elements.rows, elements.weights, column.pooling, num_rows)
        if column.default_row is not None:
            is_empty_B = torch.bincount(elements.rows, minlength=num_rows) == 0
            pooled_BD[is_empty_B] = self._rows(torch.tensor([column.default_row], dtype=torch.int64), table)
        return pooled_BD, bad

    def _rows(self, ids_E: torch.Tensor, table: Table) -> torch.Tensor:
        """Rows of a table as float32: a copy, so that unaligned and read-only tables are fine."""
        if table.rows == 0:
            return torch.zeros(len(ids_E), table.embedding_dim, dtype=torch.float32)
        stored = self.weights.tables[table.name][ids_E.numpy()]
        return torch.from_numpy(quantize.decode(stored, table.dtype, table.embedding_dim))


def _spread(column: Column, elements: Elements, values_ED: torch.Tensor, width: int, num_rows: int) -> torch.Tensor:
    """Element k of a row, times its weight, at `k * D`; zeros in the place of a dropped element."""
    if any(isinstance(e, Apply) and isinstance(e.op, ExpandOp) for e in walk(column.ids)):
        raise GraphError("an expanded column needs a pooling", where=f"column {column.name!r}", got=column.pooling)
    if elements.weights is not None:
        values_ED = values_ED * elements.weights[:, None]
    out_BWD = torch.zeros(num_rows, width, values_ED.shape[1], dtype=values_ED.dtype)
    out_BWD[elements.rows, elements.positions] = values_ED
    return out_BWD.reshape(num_rows, width * values_ED.shape[1])


def fields_of_batch(packed: Packed, layout: Layout) -> dict[str, Value]:
    """Every field, flat."""
    strings = Strings(packed.string_data, packed.string_offsets)
    texts = strings.to_objects() if "string" in layout.widths else None
    fields: dict[str, Value] = {}
    for name, place in layout.places.items():
        part = slice(packed.rows * place.start, packed.rows * (place.start + place.width))
        if place.dtype == "string":
            assert texts is not None
            fields[name] = texts[part]
        else:
            fields[name] = torch.from_numpy(packed.buffers[place.dtype][part].copy())
    for name in layout.ragged:
        values = packed.ragged[name]
        fields[name] = values.to_objects() if isinstance(values, Strings) else torch.from_numpy(values.copy())
    return fields
