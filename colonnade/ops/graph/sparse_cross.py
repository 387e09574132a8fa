"""`sparse_cross`: hashes of every combination of a row's features."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Order, Packed, Term
from colonnade.core.fingerprint import fingerprint64, fingerprint_cat
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import want_dtype, want_rank
from colonnade.ops.graph._values import array, check_range, integers
from colonnade.ops.op import GraphOp, Inferred, Value, fresh

T = TypeVar("T")
Features = list[list[int]]


@dataclass(frozen=True)
class SparseCross(GraphOp):
    """`(indices, ids, shape)`: for each row, each choice of one feature an operand, the last operand's fastest.

    An id is the hash of the features in order, begun with `hash_key`, modulo `num_buckets`; a string counts by its
    Fingerprint64, an int64 by itself. Operands: indices, values and shapes of `num_sparse` sparse matrices, then dense
    matrices.
    Facts: rows of indices strictly increase; shape is (rows, most ids of a row).
    Errors: GraphError on operands of different numbers of rows, and on indices outside of them.
    """

    num_outputs: ClassVar[int] = 3
    num_buckets: int
    hash_key: int
    num_sparse: int = 0

    def split(self, args: tuple[T, ...]) -> tuple[list[tuple[T, T, T]], tuple[T, ...]]:
        """(indices, values, shape) of each sparse matrix, and the dense ones."""
        n = self.num_sparse
        return list(zip(args[:n], args[n : 2 * n], args[2 * n : 3 * n], strict=True)), args[3 * n :]

    def infer(self, *args: Facts) -> Inferred:
        """All is known where every operand has a known number of features in each row; else the data decide."""
        n = self.num_sparse
        if self.num_buckets < 1 or len(args) < max(3 * n, 1):
            raise ShapeError("sparse_cross: no buckets, or no operands", got=f"{self.num_buckets}, {len(args)}")
        for f in (*args[n : 2 * n], *args[3 * n :]):
            want_dtype("sparse_cross", f, ("string", "int64"), "a feature")
        for f, rank in [(f, 2) for f in (*args[:n], *args[3 * n :])] + [(f, 1) for f in args[n : 3 * n]]:
            want_rank("sparse_cross", f, rank)
        found = [_sparse_extent(args[k], args[2 * n + k]) for k in range(n)] + [_extent(f) for f in args[3 * n :]]
        rows = next((r for r, _ in found if r is not None), fresh(2))
        equal = tuple((rows, r) for r, _ in found if r is not None and r != rows)
        widths = [w for _, w in found]
        if all(w is not None for w in widths) and not equal:
            return Inferred(self._complete(rows, dims.prod([w for w in widths if w is not None])))
        count = fresh(0)
        first = facts.facts("int64", (count,), lo=0, order=Order.NONDECREASING)
        packed = Packed(1, (first, facts.facts("int64", (count,), lo=0)))
        indices = facts.facts("int64", (count, 2), lo=0, order=Order.STRICT, distinct=True, packed=packed)
        return Inferred((indices, self._ids(count), facts.facts("int64", (2,), content=(rows, fresh(1)))), equal)

    def _ids(self, count: Dim) -> Facts:
        return facts.facts("int64", (count,), lo=0, hi=self.num_buckets - 1)

    def _complete(self, rows: Dim, width: Dim) -> tuple[Facts, ...]:
        count = dims.mul(rows, width)
        parts = tuple(
            facts.facts("int64", (count,), lo=0, content=facts.indexed((term,), 0, count))
            for term in (Term(1, width, None), Term(1, 1, width))
        )
        indices = facts.facts("int64", (count, 2), lo=0, order=Order.STRICT, distinct=True, packed=Packed(1, parts))
        most = width if isinstance(rows, int) and rows > 0 else fresh(1)  # without rows it is 0
        return indices, self._ids(count), facts.facts("int64", (2,), content=(rows, most))

    def reference(self, *args: Value) -> tuple[Value, Value, Value]:
        """One row at a time."""
        sparse, dense = self.split(args)
        operands = [_of_sparse(*parts) for parts in sparse] + [_of_dense(x) for x in dense]
        if len({len(o) for o in operands}) != 1:
            raise GraphError("sparse_cross: operands differ in rows", got=", ".join(str(len(o)) for o in operands))
        rows = [
            [self._id(choice) for choice in itertools.product(*features)] for features in zip(*operands, strict=True)
        ]
        indices = [(r, k) for r, ids in enumerate(rows) for k in range(len(ids))]
        return (
            torch.tensor(indices, dtype=torch.int64).reshape(-1, 2),
            torch.tensor([i for ids in rows for i in ids], dtype=torch.int64),
            torch.tensor([len(rows), max(map(len, rows), default=0)], dtype=torch.int64),
        )

    def _id(self, features: tuple[int, ...]) -> int:
        hashed = self.hash_key % 2**64
        for feature in features:
            hashed = fingerprint_cat(hashed, feature)
        return hashed % self.num_buckets


def _extent(x: Facts) -> tuple[Dim | None, Dim | None]:
    """Rows of a dense matrix, and features of each."""
    return (None, None) if x.shape is None else (x.shape[0], x.shape[1])


def _sparse_extent(indices: Facts, shape: Facts) -> tuple[Dim | None, Dim | None]:
    """Rows of a sparse matrix; features of each row, where that is proven to be one number."""
    rows = shape.values[0] if shape.values else None
    if rows is None or indices.packed is None or indices.packed.axis != 1:
        return rows, None
    first = indices.packed.parts[0]
    width = None if first.shape is None else dims.div_exact(first.shape[0], rows)
    if width is None:
        return rows, None
    expected = facts.indexed((Term(1, width, None),), 0, first.shape[0]) if first.shape else None
    return rows, width if facts.as_indexed(first) == expected else None


def _word(feature: bytes | int) -> int:
    return fingerprint64(feature) if isinstance(feature, bytes) else feature % 2**64


def _of_dense(value: Value) -> Features:
    return [[_word(feature) for feature in row] for row in array(value).tolist()]


def _of_sparse(indices: Value, values: Value, shape: Value) -> Features:
    """Rows take their features in the order of the values: indices are meant to be sorted."""
    first, features = array(indices)[:, 0], array(values).tolist()
    rows = integers(shape)[0]
    if len(first) != len(features):
        raise GraphError("sparse_cross: indices and values differ", got=f"{len(first)} and {len(features)}")
    check_range("sparse_cross", first, rows)
    counts = np.bincount(first, minlength=rows)
    ends = np.cumsum(counts)
    return [[_word(f) for f in features[end - count : end]] for count, end in zip(counts, ends, strict=True)]
