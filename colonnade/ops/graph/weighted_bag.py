"""`weighted_bag`: rows of a table looked up, weighted and pooled by batch row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.core.pooling import MARKS, POOLINGS, pool
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._segment import segments
from colonnade.ops.graph._values import array, check_range, integer
from colonnade.ops.graph.embedding_bag import INDEX
from colonnade.ops.op import GraphOp, Inferred, Value, fresh, structural

WeightedPooling = Literal["sum", "mean", "sqrtn", "marks"]


@dataclass(frozen=True)
class WeightedBag(GraphOp):
    """`out[b] = pooling of weights[k] * table[ids[k]] over all k with rows[k] == b`.

    Operands: table, ids, rows, number of rows, weights. Mean divides by the sum of the weights, sqrtn by the root of
    that of their squares; a divisor of 0 gives 0. Marks adds up what is not 0 in a row, and nothing else. A batch row
    without ids is 0, or row `default_row` of the table.
    Errors: GraphError on rows that fall or lie outside, on an id outside the table, on another number of weights.
    """

    pooling: WeightedPooling = structural()  # noqa: RUF009
    default_row: int | None = None

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape: the number of rows."""
        table, ids, rows, num_rows, weights = args
        if self.pooling not in (*POOLINGS, MARKS):
            raise ShapeError("weighted_bag: no such pooling", got=self.pooling, want=", ".join((*POOLINGS, MARKS)))
        want_dtype("weighted_bag", table, ("float32",), "table")
        want_dtype("weighted_bag", weights, ("float32",), "weights")
        for f, operand, rank in ((ids, "ids", 1), (rows, "rows", 1), (num_rows, "number of rows", 0)):
            want_dtype("weighted_bag", f, INDEX, operand)
            want_rank("weighted_bag", f, rank, operand)
        want_rank("weighted_bag", weights, 1, "weights")
        want_rank("weighted_bag", table, 2, "table")
        counts = [f.shape[0] for f in (ids, rows, weights) if f.shape is not None]
        count = num_rows.values[0] if num_rows.values else fresh(0)
        width = table.shape[1] if table.shape is not None else fresh(1)
        return one(facts.facts(table.dtype, (count, width)), tuple((counts[0], c) for c in counts[1:]))

    def reference(self, *args: Value) -> Value:
        """One after the other."""
        table, ids, rows, weights = (array(args[k]) for k in (0, 1, 2, 4))
        if not len(ids) == len(rows) == len(weights):
            raise GraphError("weighted_bag: operands differ", got=f"{len(ids)}, {len(rows)} and {len(weights)}")
        count = segments("weighted_bag", rows, integer(args[3]))
        check_range("weighted_bag", ids, len(table))
        batch_rows = torch.from_numpy(rows.astype(np.int64))
        made = pool(torch.from_numpy(table[ids]), batch_rows, torch.from_numpy(weights), self.pooling, count)
        if self.default_row is not None:
            check_range("weighted_bag", np.array([self.default_row]), len(table))
            made[torch.bincount(batch_rows, minlength=count) == 0] = torch.from_numpy(table[self.default_row].copy())
        return made
