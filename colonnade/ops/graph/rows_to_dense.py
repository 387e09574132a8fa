"""`rows_to_dense`: values that say their rows, as a tensor that holds one value behind each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import hull, one, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._segment import segments
from colonnade.ops.graph._values import array, integer, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class RowsToDense(GraphOp):
    """`out[row, place]` is the value at that place of its row, else the default; of (rows, values, default, count).

    width: places of each row, beyond which values are left out; None: as many as the longest row has values.
    Shapes: rows `[N]`, values `[N, ...]`, default and count scalars; the result is `[count, width, ...]`.
    Errors: GraphError on rows that fall or lie outside.
    """

    width: int | None = None

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape: the number of rows; the data decide the width where none is given."""
        rows, values, default, count = args
        for x, what, rank in ((rows, "rows", 1), (count, "the number of rows", 0)):
            want_dtype("rows_to_dense", x, ("int32", "int64"), what)
            want_rank("rows_to_dense", x, rank, what)
        want_same_dtype("rows_to_dense", (values, default))
        want_rank("rows_to_dense", default, 0, "the default")
        if self.width is not None and self.width < 0:
            raise ShapeError("rows_to_dense: no such width", got=str(self.width), want=">= 0")
        lo, hi = hull((values, default))
        if values.shape is None or rows.shape is None:
            return one(facts.facts(values.dtype, None, lo=lo, hi=hi))
        if not values.shape:
            raise ShapeError("rows_to_dense: values have no rows", got="()", want="at least 1 dimension")
        height = count.values[0] if count.values else fresh(0)
        width = fresh(1) if self.width is None else self.width
        made = facts.facts(values.dtype, (height, width, *values.shape[1:]), lo=lo, hi=hi)
        return one(made, ((rows.shape[0], values.shape[0]),))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        rows, values, default = map(array, args[:3])
        count = segments("rows_to_dense", rows, integer(args[3]))
        if len(rows) != len(values):
            raise GraphError("rows_to_dense: rows and values differ", got=f"{len(rows)} and {len(values)}")
        lengths = np.bincount(rows.astype(np.int64), minlength=count)
        places = np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows.astype(np.int64)]
        width = int(lengths.max(initial=0)) if self.width is None else self.width
        made = np.empty((count, width, *values.shape[1:]), dtype=values.dtype)
        made[...] = default
        inside = places < width
        made[rows[inside], places[inside]] = values[inside]
        return like(args[1], made)
