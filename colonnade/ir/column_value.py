"""`column_value`: a whole column as one graph op, so that a graph with columns in it can still be interpreted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from colonnade.core import dims, facts
from colonnade.errors import GraphError
from colonnade.ir.column import Column
from colonnade.ir.evaluate import Elements, elements_of
from colonnade.ops.graph._values import check_range
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.weighted_bag import WeightedBag
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class ColumnValue(GraphOp):
    """`[B, embedding_dim]`: the column's vectors. Operands: the table, then the fields in the order of `fields`.

    Without a pooling, `[B, W * embedding_dim]`: a vector for each of the W elements of a row.
    ragged: whether the fields are the values of rows that differ in length; an index matrix and its dense shape, which
    say where each value lies, are then the last operands.
    """

    column: Column
    fields: tuple[str, ...]
    ragged: bool = False

    def infer(self, *args: facts.Facts) -> Inferred:
        """One row for each row of the fields."""
        table, first, *_ = args
        if table.rank != 2 or table.shape is None or first.shape is None:
            raise GraphError("a column needs a matrix and fields of known rank", got=f"{table.shape}, {first.shape}")
        rows = first.shape[0]
        if self.ragged:
            rows = args[-1].values[0] if args[-1].values else fresh(0)
        width = dims.prod(first.shape[1:]) if self.column.pooling == "none" else 1
        return Inferred((facts.facts(table.dtype, (rows, dims.mul(width, table.shape[1]))),))

    def reference(self, *args: Value) -> Value:
        """Elements, filters, lookup, pooling: one after the other."""
        table, *values = args
        lengths = None
        if self.ragged:
            *values, indices, shape = values
            lengths = torch.bincount(torch.as_tensor(indices)[:, 0], minlength=int(shape[0]))
        return evaluate(self.column, table, dict(zip(self.fields, values, strict=True)), lengths)


def evaluate(column: Column, table: Value, fields: Mapping[str, Value], lengths: torch.Tensor | None = None) -> Value:
    """The column's `[B, embedding_dim]` vectors, by the ops' references; without a pooling `[B, W * embedding_dim]`.

    lengths: elements of each row, `[B]`, where the fields are ragged.
    Shapes: each dense field `[B, ...]`; its elements are taken row-major.
    """
    num_rows = len(next(iter(fields.values()))) if lengths is None else len(lengths)
    found = elements_of(column, {name: value.reshape(-1) for name, value in fields.items()}, num_rows, lengths)
    if column.pooling == "none":
        return _spread(found, table, tuple(next(iter(fields.values())).shape))
    if found.weights is not None:
        rows = torch.tensor(num_rows, dtype=torch.int64)
        weighted = WeightedBag(column.pooling, column.default_row)  # type: ignore[arg-type]
        made: Value = weighted.reference(table, found.ids, found.rows, rows, found.weights)
        return made
    bag = EmbeddingBag(column.pooling, column.default_row)  # type: ignore[arg-type]
    pooled: Value = bag.reference(table, found.ids, found.rows, torch.tensor(num_rows, dtype=torch.int64))
    return pooled


def _spread(found: Elements, table: Value, shape: tuple[int, ...]) -> Value:
    """Each element's vector in its place of its row; zeros where it was dropped."""
    check_range("column_value", found.ids.numpy(), len(table))
    vectors = torch.as_tensor(table)[found.ids.long()]
    out = torch.zeros(shape[0], math.prod(shape[1:]), vectors.shape[1], dtype=vectors.dtype)
    out[found.rows, found.positions] = vectors
    return out.reshape(shape[0], out.shape[1] * out.shape[2])
