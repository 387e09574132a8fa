"""`column_value`: a whole column as one graph op, so that a graph with columns in it can still be interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import GraphError
from colonnade.ir.column import Column
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.op import ExpandOp, GraphOp, Inferred, Value


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
    batch = len(next(iter(fields.values())))
    ids, rows = elements(column.ids, fields)
    keep = torch.ones(len(rows), dtype=torch.bool)
    for predicate in column.filters:
        kept, _ = elements(predicate, fields)
        assert isinstance(kept, torch.Tensor)
        keep &= kept if len(kept) == len(keep) else kept[_parent_positions(column.ids, fields)]
    assert isinstance(ids, torch.Tensor)
    bag = EmbeddingBag(column.pooling, column.default_row)
    return bag.reference(table, ids[keep], rows[keep], torch.tensor(batch))  # type: ignore[no-any-return]


def elements(expr: Expr, fields: Mapping[str, Value]) -> tuple[Value, torch.Tensor]:
    """The expression's flat values, and the batch row of each."""
    if isinstance(expr, Field):
        value = fields[expr.name]
        flat = value.reshape(-1)
        batch = len(value)
        return flat, torch.arange(batch).repeat_interleave(len(flat) // batch if batch else 0)
    assert isinstance(expr, Apply)
    values, rows = zip(*(elements(a, fields) for a in expr.args), strict=True)
    if isinstance(expr.op, ExpandOp):
        tokens, counts = expr.op.expand(values[0])
        return tokens, rows[0].repeat_interleave(counts)
    return expr.op.reference(*values), rows[0]


def _parent_positions(expr: Expr, fields: Mapping[str, Value]) -> torch.Tensor:
    """For each token of an expression that splits, the position of the element it came of."""
    assert isinstance(expr, Apply)
    if isinstance(expr.op, ExpandOp):
        values, _ = elements(expr.args[0], fields)
        _, counts = expr.op.expand(values)
        return torch.arange(len(np.asarray(counts))).repeat_interleave(counts)
    return _parent_positions(expr.args[0], fields)
