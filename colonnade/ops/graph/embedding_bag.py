"""`embedding_bag`: rows of a table looked up and pooled by batch row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.core.pooling import POOLINGS, pool
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._segment import segments
from colonnade.ops.graph._values import array, check_range, integer
from colonnade.ops.op import GraphOp, Inferred, Value, fresh, structural

INDEX = ("int32", "int64")
Pooling = Literal["sum", "mean", "sqrtn"]


@dataclass(frozen=True)
class EmbeddingBag(GraphOp):
    """`out[b] = pooling of table[ids[k]] over all k with rows[k] == b`; operands: table, ids, rows, number of rows.

    A batch row without ids is 0, or row `default_row` of the table.
    Errors: GraphError on rows that fall or lie outside, and on an id outside the table.
    Shapes: table [R, D], ids [N], rows [N], number of rows [] -> [B, D].
    """

    pooling: Pooling = structural()  # noqa: RUF009
    default_row: int | None = None

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape: the number of rows."""
        table, ids, rows, num_rows = args
        if self.pooling not in POOLINGS:
            raise ShapeError("embedding_bag: no such pooling", got=self.pooling, want=", ".join(POOLINGS))
        want_dtype("embedding_bag", table, facts.FLOATING, "table")
        for f, operand, rank in ((ids, "ids", 1), (rows, "rows", 1), (num_rows, "number of rows", 0)):
            want_dtype("embedding_bag", f, INDEX, operand)
            want_rank("embedding_bag", f, rank, operand)
        want_rank("embedding_bag", table, 2, "table")
        equal = ((ids.shape[0], rows.shape[0]),) if ids.shape is not None and rows.shape is not None else ()
        count = num_rows.values[0] if num_rows.values else fresh(0)
        width = table.shape[1] if table.shape is not None else fresh(1)
        return one(facts.facts(table.dtype, (count, width)), equal)

    def reference(self, *args: Value) -> Value:
        """In the order of TensorFlow's kernels."""
        table, ids, rows = (array(v) for v in args[:3])
        if ids.shape != rows.shape:
            raise GraphError("embedding_bag: ids and rows differ", got=f"{ids.shape} and {rows.shape}")
        count = segments("embedding_bag", rows, integer(args[3]))
        check_range("embedding_bag", ids, len(table))
        batch_rows = torch.from_numpy(rows.astype(np.int64))
        made = pool(torch.from_numpy(table[ids]), batch_rows, None, self.pooling, count)
        if self.default_row is not None:
            check_range("embedding_bag", np.array([self.default_row]), len(table))
            made[torch.bincount(batch_rows, minlength=count) == 0] = torch.from_numpy(table[self.default_row].copy())
        return made
