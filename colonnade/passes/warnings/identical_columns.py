"""`identical-columns`: one vector twice in the same layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colonnade.ir.column import Column
from colonnade.ir.explanation import Notice
from colonnade.ir.program import Program
from colonnade.ir.text import print_expr
from colonnade.passes.warnings.base import Warn, where


class IdenticalColumns(Warn):
    """Columns of one buffer have the same ids, filters, weights, table and pooling. In different buffers, those of
    towers that share a table, they are wanted.
    """

    def look(self, program: Program) -> Iterator[Notice]:
        """Once a group of equal columns."""
        groups: dict[Any, list[Column]] = {}
        for column in program.columns:
            if column.table is None:
                continue
            key = (column.ids, column.filters, column.weights, column.table, column.pooling, column.default_row)
            for buffer in dict.fromkeys(slot.output for slot in column.slots):
                groups.setdefault((key, buffer), []).append(column)
        for (_, buffer), columns in groups.items():
            if len(columns) > 1:
                yield Notice(
                    self.name,
                    f"{len(columns)} columns give the same vectors to {buffer}",
                    where=where(columns),
                    got=f"{print_expr(columns[0].ids)} in table {columns[0].table!r}, {columns[0].pooling}",
                    help="one of them is enough: the others add weights to the network, and no knowledge",
                )
