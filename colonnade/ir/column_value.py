"""`column_value`: a whole column as one graph op, so that a graph with columns in it can still be interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from colonnade.core import facts
from colonnade.errors import GraphError
from colonnade.ir.column import Column
from colonnade.ir.evaluate import elements_of
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class ColumnValue(GraphOp):
    """`[B, embedding_dim]`: the column's vectors. Operands: the table, then the fields in the order of `fields`."""

    column: Column
    fields: tuple[str, ...]

    def infer(self, *args: facts.Facts) -> Inferred:
        """One row for each row of the fields."""
        table, first, *_ = args
        if table.rank != 2 or table.shape is None or first.shape is None:
            raise GraphError("a column needs a matrix and fields of known rank", got=f"{table.shape}, {first.shape}")
        return Inferred((facts.facts(table.dtype, (first.shape[0], table.shape[1])),))

    def reference(self, *args: Value) -> Value:
        """Elements, filters, lookup, pooling: one after the other."""
        table, *values = args
        return evaluate(self.column, table, dict(zip(self.fields, values, strict=True)))


def evaluate(column: Column, table: Value, fields: Mapping[str, Value]) -> Value:
    """The column's `[B, embedding_dim]` vectors, by the ops' references.

    Shapes: each field `[B, ...]`; its elements are taken row-major.
    """
    num_rows = len(next(iter(fields.values())))
    found = elements_of(column, {name: value.reshape(-1) for name, value in fields.items()}, num_rows)
    bag = EmbeddingBag(column.pooling, column.default_row)  # type: ignore[arg-type]
    pooled: Value = bag.reference(table, found.ids, found.rows, torch.tensor(num_rows))
    return pooled
