"""A column: field elements -> ids -> rows of a table -> pooled -> slots of an output."""

from __future__ import annotations

from dataclasses import dataclass, field

from colonnade.core.expr import Expr, fields_of

POOLINGS = ("sum", "mean", "sqrtn", "max", "none", "marks")
ID_POLICIES = ("error", "zero")


@dataclass(frozen=True)
class Slot:
    """Where a column's vector goes: `width` values at `offset` of each row of buffer `output`."""

    output: str
    offset: int
    width: int


@dataclass(frozen=True)
class Column:
    """What becomes of each element of a field.

    ids: the row of `table` for each element.   filters: predicates; an element stays where all are true.
    weights: a factor for each element, or None.   pooling: over the elements of one batch row; "marks" is
    a sum of weights where a row of the table holds marks (`core/pooling.py`).
    default_row: the table row used where a batch row has no element (None: zeros).
    ids_proven: every id is proven to lie in the table, so that no backend checks it.
    source: graph path and tensor that it was read from, outside equality.
    Facts: without a table, the value itself goes to the slot (numeric column).
    """

    name: str
    ids: Expr
    table: str | None
    pooling: str = "sum"
    filters: tuple[Expr, ...] = ()
    weights: Expr | None = None
    default_row: int | None = None
    ids_proven: bool = False
    slots: tuple[Slot, ...] = ()
    source: str = field(default="", compare=False)


def fields_read(column: Column) -> tuple[str, ...]:
    """The fields a column reads, in order of first use."""
    exprs = [column.ids, *column.filters, *([column.weights] if column.weights is not None else [])]
    return tuple(dict.fromkeys(name for e in exprs for name in fields_of(e)))
