"""`sparse_fill_empty_rows`: one default element for every row that has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Order, Packed
from colonnade.errors import GraphError
from colonnade.ops.graph._facts import hull, positive, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class SparseFillEmptyRows(GraphOp):
    """`(indices, values, empty_row, reverse)`: sorted by row, stably; empty rows get `(row, 0, ..)` and the default.

    empty_row: bool, one a row.   reverse: where each element went.
    Facts: where every row is proven to have an element, and the rows are sorted, nothing changes.
    """

    num_outputs: ClassVar[int] = 4

    def infer(self, *args: Facts) -> Inferred:
        """The operands' facts where nothing is filled; else sorted rows and a count that the data decide."""
        indices, values, shape, default = args
        want_dtype("sparse_fill_empty_rows", indices, ("int64",), "indices")
        want_same_dtype("sparse_fill_empty_rows", (values, default))
        for f, operand, rank in (
            (indices, "indices", 2),
            (values, "values", 1),
            (shape, "shape", 1),
            (default, "default", 0),
        ):
            want_rank("sparse_fill_empty_rows", f, rank, operand)
        rows = shape.values[0] if shape.values else fresh(1)
        counts = [f.shape[0] for f in (indices, values) if f.shape is not None]
        equal = ((counts[0], counts[1]),) if len(counts) == 2 and counts[0] != counts[1] else ()
        if _complete(indices, rows):
            return Inferred(_unchanged(indices, values, rows), equal)
        count = counts[0] if counts else fresh(2)
        lo, hi = hull((values, default))
        reverse = facts.facts("int64", (count,), lo=0, distinct=True)
        empty = facts.facts("bool", (rows,), lo=0, hi=1)
        made = facts.facts(values.dtype, (fresh(0),), lo=lo, hi=hi)
        return Inferred((_filled(indices, shape, rows), made, empty, reverse), equal)

    def reference(self, *args: Value) -> tuple[Value, Value, Value, Value]:
        """One row at a time."""
        indices, values, default = array(args[0]), array(args[1]), array(args[3])
        shape = integers(args[2])
        if not shape:
            raise GraphError("sparse_fill_empty_rows: a shape without rows", got="()", want="at least 1 dimension")
        rows = shape[0]
        row_of = indices[:, 0]
        bad = (row_of < 0) | (row_of >= rows)
        if bad.any():
            raise GraphError(
                "sparse_fill_empty_rows: rows out of range", got=str(row_of[bad][:20].tolist()), want=f"0 .. {rows - 1}"
            )
        empty = np.ones(rows, dtype=bool)
        empty[row_of] = False
        filler = np.zeros((int(empty.sum()), indices.shape[1]), dtype=np.int64)
        filler[:, 0] = np.flatnonzero(empty)
        every = np.concatenate([indices, filler])
        order = np.argsort(every[:, 0], kind="stable")
        fill = np.empty(len(filler), dtype=values.dtype)
        fill[:] = default
        reverse = np.empty(len(every), dtype=np.int64)
        reverse[order] = np.arange(len(every))
        made = like(args[1], np.concatenate([values, fill])[order])
        back = torch.from_numpy(reverse[: len(indices)].copy())
        return torch.from_numpy(every[order]), made, torch.from_numpy(empty), back


def _complete(indices: Facts, rows: Dim) -> bool:
    """Whether the rows are proven to be sorted and each to have an element: row `i // k`, k >= 1."""
    if indices.packed is None or indices.packed.axis != 1 or indices.shape is None:
        return False
    part = indices.packed.parts[0]
    if part.ints is not None:
        return (
            part.order >= Order.NONDECREASING and isinstance(rows, int) and sorted(set(part.ints)) == list(range(rows))
        )
    if not isinstance(part.content, facts.Indexed) or part.content.constant != 0 or len(part.content.terms) != 1:
        return False
    (term,) = part.content.terms
    alone = term.coefficient == 1 and term.modulus is None and positive(term.divisor)
    return alone and dims.mul(rows, term.divisor) == indices.shape[0]


def _unchanged(indices: Facts, values: Facts, rows: Dim) -> tuple[Facts, ...]:
    assert indices.shape is not None
    count = indices.shape[0]
    empty = facts.facts("bool", (rows,), lo=0, hi=0)
    reverse = facts.facts("int64", (count,), lo=0, content=facts.iota(count))
    return indices, values, empty, reverse


def _filled(indices: Facts, shape: Facts, rows: Dim) -> Facts:
    """The index matrix: rows nondecreasing and inside, the other columns as before or 0."""
    width: Dim = fresh(3)
    if indices.shape is not None and isinstance(indices.shape[1], int):
        width = indices.shape[1]
    elif shape.shape is not None:
        width = shape.shape[0]
    packed = None
    if isinstance(width, int) and width >= 1:
        hi = rows - 1 if isinstance(rows, int) else None
        first = facts.facts("int64", (fresh(0),), lo=0, hi=hi, order=Order.NONDECREASING)
        packed = Packed(1, (first, *(_column(indices, k) for k in range(1, width))))
    lo = 0 if packed is not None and all(p.lo == 0 for p in packed.parts) else None
    order = indices.order if indices.order >= Order.NONDECREASING else Order.NONE
    distinct = indices.distinct
    return facts.facts("int64", (fresh(0), width), lo=lo, order=order, distinct=distinct, packed=packed)


def _column(indices: Facts, k: int) -> Facts:
    """A column that is not the row: 0 may join it."""
    known = indices.packed.parts[k] if indices.packed is not None and indices.packed.axis == 1 else indices
    lo = None if known.lo is None else min(known.lo, 0)
    hi = None if known.hi is None else max(known.hi, 0)
    return facts.facts("int64", (fresh(0),), lo=lo, hi=hi)
