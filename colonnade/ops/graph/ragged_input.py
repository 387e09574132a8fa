"""`ragged_input`: rows of differing lengths, said by an index matrix, by splits, or by splits of splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Order, Packed
from colonnade.core.rows import Rows, rows_of_indices, rows_of_nested, rows_of_splits
from colonnade.errors import ShapeError
from colonnade.ops.graph._facts import want_dtype, want_rank
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.op import GraphOp, Inferred, Value, fresh

INDEX = ("int32", "int64")
FORMS = ("indices", "splits", "nested")


@dataclass(frozen=True)
class RaggedInput(GraphOp):
    """`(indices, values .., dense shape)` of a matrix whose rows differ in length.

    Operands: by indices: the index matrix, its dense shape unless trimmed, values; by splits: where each row begins and
    the last ends, values; nested: the same of rows of rows, where each of those begins, values: a row has the elements
    of all its rows. All vectors of values have an element for each index.
    trimmed: rows behind the last one with an element are left out. rows, width: names of the dims of the dense shape;
    without a name they are sizes that only the data decide.
    strict: whether places within a row rise, so that no index occurs twice; they always do but by indices.
    Facts: rows never decrease and lie within the shape.
    Errors: FeedError where rows fall, an index lies outside the shape, or numbers of elements differ.
    """

    by: str
    num_values: int = 1
    trimmed: bool = False
    strict: bool = False
    rows: str | None = None
    width: str | None = None

    def __post_init__(self) -> None:
        if self.by not in FORMS:
            raise ShapeError("ragged_input: no such form", got=self.by, want=", ".join(FORMS))

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """The matrix, each vector of values, the shape."""
        return 2 + self.num_values

    @property
    def first_value(self) -> int:
        """The place of the first vector of values among the operands."""
        return 2 if self.by == "nested" or (self.by == "indices" and not self.trimmed) else 1

    def renamed(self, names: Mapping[str, str]) -> RaggedInput:
        """The same op with other names of dims."""
        rows, width = (name and names.get(name, name) for name in (self.rows, self.width))
        return replace(self, rows=rows, width=width)

    def infer(self, *args: Facts) -> Inferred:
        """Rows in order, as many as the shape says; one element for each value."""
        first, *_ = args
        values = args[self.first_value :]
        want_dtype("ragged_input", first, ("int64",) if self.by == "indices" else INDEX, self.by)
        want_rank("ragged_input", first, 2 if self.by == "indices" else 1, self.by)
        if self.by == "nested":
            want_dtype("ragged_input", args[1], INDEX, "splits of rows of rows")
            want_rank("ragged_input", args[1], 1, "splits of rows of rows")
        for each in values:
            want_rank("ragged_input", each, 1, "values")
        counts = [each.shape[0] for each in values if each.shape is not None]
        if self.by == "indices" and first.shape is not None:
            counts.append(first.shape[0])
        count = counts[0] if counts else fresh(2)
        rows: Dim = fresh(0) if self.rows is None else dims.symbol(self.rows)
        if self.by != "indices" and self.rows is None and not self.trimmed and first.shape is not None:
            rows = dims.sub(first.shape[0], 1)
        width: Dim = fresh(1) if self.width is None else dims.symbol(self.width)
        row = facts.facts("int64", (count,), lo=0, order=Order.NONDECREASING)
        packed = Packed(1, (row, facts.facts("int64", (count,), lo=0)))
        is_strict = self.strict or self.by != "indices"
        order = Order.STRICT if is_strict else Order.NONE
        matrix = facts.facts("int64", (count, 2), lo=0, order=order, distinct=is_strict, packed=packed)
        shape = facts.facts("int64", (2,), content=(rows, width))
        made = (facts.facts(each.dtype, (count,), lo=each.lo, hi=each.hi) for each in values)
        return Inferred((matrix, *made, shape), tuple((counts[0], c) for c in counts[1:]))

    def reference(self, *args: Value) -> tuple[Value, ...]:
        """The operands, once they are checked."""
        values = args[self.first_value :]
        lengths = [len(value) for value in values]
        rows = self._read(args, lengths[0])
        if any(n != rows.num_elements for n in lengths):
            raise ShapeError("ragged_input: numbers differ", got=f"{lengths}", want=str(rows.num_elements))
        matrix = args[0] if self.by == "indices" else tensor(rows.indices())
        return matrix, *values, torch.tensor([rows.num_rows, rows.width], dtype=torch.int64)

    def _read(self, args: tuple[Value, ...], num: int) -> Rows:
        if self.by == "splits":
            return rows_of_splits(array(args[0]), self.trimmed)
        if self.by == "nested":
            outer, inner = (rows_of_splits(array(x), trimmed=False) for x in args[:2])
            return rows_of_nested(outer, inner, self.trimmed)
        return rows_of_indices(array(args[0]), None if self.trimmed else array(args[1]), self.strict)
