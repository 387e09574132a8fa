"""Which type each table is stored in, and the rows of float32 tables stored in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from colonnade.core import quantize
from colonnade.core.identity import window_of
from colonnade.core.quantize import Stored, UnstorableError
from colonnade.errors import OptionError, ShapeError, listed
from colonnade.ir.explanation import StoredTable
from colonnade.ir.program import Program, Weights
from colonnade.ir.table import Table

Array = npt.NDArray[Any]
Wanted = str | Mapping[str, str] | None
"""A type for all tables, or types by the tables' names (`*`: all others)."""
Progress = Callable[[str], None]

FLOAT32 = "float32"
TYPES = (FLOAT32, *quantize.NARROW)
OTHERS = "*"
SAY = 256 << 20
"""Progress is told each time so many bytes were read."""


def parse(texts: Sequence[str] | None) -> Wanted:
    """`TYPE` for all tables and `TABLE=TYPE` for one, as a command line has them. Errors: OptionError."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, dtype = text.rpartition("=")
        key = name if equals else OTHERS
        if key in found:
            raise OptionError("a table has one type", got=listed(list(texts or ())))
        found[key] = dtype
    return found or None


def choose(program: Program, wanted: Wanted) -> dict[str, str]:
    """The type of each table that changes its type, by name.

    Facts: a type for all tables leaves those that it would not make smaller (up to four values a row, `int8_rowwise`).
    Errors: OptionError that lists unknown types, unknown tables and named tables that are not float32.
    """
    given = {OTHERS: wanted} if isinstance(wanted, str) else dict(wanted or {})
    types = {name: dtype.replace("-", "_") for name, dtype in given.items()}
    wrong = list(_wrong(program, types))
    if wrong:
        raise OptionError(
            "tables cannot be stored so", got=listed(wrong), want=f"one of {', '.join(TYPES)}, for float32 tables"
        )
    others = types.pop(OTHERS, FLOAT32)
    for table in program.tables:
        if table.dtype == FLOAT32 and replace(table, dtype=others).row_bytes < table.row_bytes:
            types.setdefault(table.name, others)
    return {name: dtype for name, dtype in types.items() if dtype != FLOAT32}


def _wrong(program: Program, types: Mapping[str, str]) -> Iterator[str]:
    tables = {t.name: t for t in program.tables}
    for name, dtype in types.items():
        if dtype not in TYPES:
            yield f"no such type: {dtype!r}" + ("" if name == OTHERS else f" for table {name!r}")
        if name != OTHERS and name not in tables:
            yield f"no such table: {name!r}"
        elif name != OTHERS and tables[name].dtype != FLOAT32:
            yield f"table {name!r} is {tables[name].dtype}"


def with_types(
    program: Program, weights: Weights, wanted: Wanted, progress: Progress | None = None
) -> tuple[Program, Weights, tuple[StoredTable, ...]]:
    """The program and its weights with tables stored in other types, and what that did to each.

    Facts: an identity matrix whose rows are windows stays so, which is the smallest that it can be.

    Errors: those of `choose` and `store_all`.
    """
    types = {n: t for n, t in choose(program, wanted).items() if not _is_window(weights.tables.get(n))}
    if not types:
        return program, weights, ()
    tables = tuple(replace(t, dtype=types.get(t.name, t.dtype)) for t in program.tables)
    changed = [t for t in tables if t.name in types]
    rows, facts = store_all(changed, weights.tables, progress)
    return replace(program, tables=tables), replace(weights, tables={**weights.tables, **rows}), facts


def _is_window(rows: Array | None) -> bool:
    return rows is not None and window_of(rows) is not None


def store_all(
    tables: Sequence[Table], rows: Mapping[str, Array], progress: Progress | None = None
) -> tuple[dict[str, Array], tuple[StoredTable, ...]]:
    """float32 rows of tables, stored in the types of these.

    Errors: OptionError that lists every table with values its type cannot hold; ShapeError where rows do not fit.
    """
    say = _Say(progress, sum(4 * t.rows * t.embedding_dim for t in tables))
    stored: dict[str, Array] = {}
    facts: list[StoredTable] = []
    wrong: list[str] = []
    for table in tables:
        try:
            made = _store(table, rows.get(table.name), say)
        except UnstorableError as e:
            wrong.append(f"table {table.name!r}: {e}")
            continue
        stored[table.name] = made.array
        bytes_float32 = 4 * table.rows * table.embedding_dim
        facts.append(StoredTable(table.name, table.dtype, bytes_float32, table.bytes, made.largest, made.rms))
    if wrong:
        raise OptionError(
            "tables hold values that their type cannot", got=listed(wrong), help="store these tables as float32"
        )
    return stored, tuple(facts)


def _store(table: Table, rows: Array | None, say: _Say) -> Stored:
    want = f"{FLOAT32}{[table.rows, table.embedding_dim]}"
    got = "missing" if rows is None else f"{rows.dtype.name}{list(rows.shape)}"
    if rows is None or got != want:
        raise ShapeError("a table's rows do not fit", where=f"table {table.name!r}", got=got, want=want)
    return quantize.store(rows, table.dtype, say.advance)


@dataclass
class _Say:
    """Tells how much of the tables is done."""

    progress: Progress | None
    total: int
    done: int = 0
    said: int = -1

    def advance(self, count: int) -> None:
        """So many more bytes."""
        self.done += count
        if self.progress is not None and self.done // SAY > self.said:
            self.said = self.done // SAY
            self.progress(f"store tables: {self.done / 1e6:,.0f} of {self.total / 1e6:,.0f} MB")
