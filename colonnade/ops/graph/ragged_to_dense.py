"""`ragged_to_dense`: rows of differing lengths, said by splits, as a tensor that holds one value behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Facts
from colonnade.core.rows import rows_of_splits
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import hull, one, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class RaggedToDense(GraphOp):
    """`out[row, place] = values[splits[row] + place]`, the default behind each row, for `(splits, values, default)`.

    width: places of each row, beyond which values are left out; None: as many as the longest row has values.
    Shapes: splits `[rows + 1]`, values `[N, ...]`, the default a scalar; the result is `[rows, width, ...]`.
    Errors: FeedError where splits fall or do not begin at 0; ShapeError where they do not end with the values.
    """

    width: int | None = None

    def infer(self, *args: Facts) -> Inferred:
        """As many rows as splits say; the data decide the width."""
        splits, values, default = args
        want_dtype("ragged_to_dense", splits, ("int32", "int64"), "splits")
        want_rank("ragged_to_dense", splits, 1, "splits")
        want_same_dtype("ragged_to_dense", (values, default))
        want_rank("ragged_to_dense", default, 0, "the default")
        lo, hi = hull((values, default))
        if values.shape is None or splits.shape is None:
            return one(facts.facts(values.dtype, None, lo=lo, hi=hi))
        if not values.shape:
            raise ShapeError("ragged_to_dense: values have no rows", got="()", want="at least 1 dimension")
        if self.width is not None and self.width < 0:
            raise ShapeError("ragged_to_dense: no such width", got=str(self.width), want=">= 0")
        rows, width = dims.sub(splits.shape[0], 1), fresh(0) if self.width is None else self.width
        return one(facts.facts(values.dtype, (rows, width, *values.shape[1:]), lo=lo, hi=hi))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        splits, values, default = map(array, args)
        rows = rows_of_splits(splits, trimmed=False)
        if len(values) != rows.num_elements:
            raise ShapeError("ragged_to_dense: numbers differ", got=str(len(values)), want=str(rows.num_elements))
        width, indices = rows.width if self.width is None else self.width, rows.indices()
        made = np.empty((rows.num_rows, width, *values.shape[1:]), dtype=values.dtype)
        made[...] = default
        kept = indices[:, 1] < width
        made[tuple(indices[kept].T)] = values[kept]
        return like(args[1], made)
