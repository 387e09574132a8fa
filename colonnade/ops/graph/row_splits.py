"""`row_splits`: an input that says where the rows of something that is made of other inputs begin and end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from colonnade.core import dims, facts
from colonnade.core.facts import Facts, Order
from colonnade.core.rows import rows_of_splits
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class RowSplits(GraphOp):
    """The splits of an input, `int64[rows + 1]`, once they are checked.

    rows: the name of the number of rows.   elements: the name of the size with which the last one ends, in every
    request; the program holds requests to it.
    Errors: FeedError where they fall or do not begin at 0.
    """

    rows: str
    elements: str

    def renamed(self, names: Mapping[str, str]) -> RowSplits:
        """The same op with other names of dims."""
        return replace(self, rows=names.get(self.rows, self.rows), elements=names.get(self.elements, self.elements))

    def infer(self, *args: Facts) -> Inferred:
        """One more than there are rows."""
        want_dtype("row_splits", args[0], ("int32", "int64"), "splits")
        want_rank("row_splits", args[0], 1, "splits")
        made = facts.facts("int64", (dims.add(dims.symbol(self.rows), 1),), lo=0, order=Order.NONDECREASING)
        return one(made)

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        return torch.from_numpy(rows_of_splits(array(args[0]), trimmed=False).offsets)
