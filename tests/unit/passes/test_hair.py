"""Graphs in which a rewrite's condition fails by a hair: it is rejected with the right reason, and the answer stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.unique import Unique
from colonnade.ops.graph.where import Where
from colonnade.ops.graph.zeros_like import ZerosLike
from colonnade.passes.base import Log
from colonnade.passes.drop_guards import DropGuards
from colonnade.passes.drop_identities import DropIdentities
from colonnade.passes.drop_sparse_reshapes import DropSparseReshapes
from colonnade.passes.flatten_concats import FlattenConcats
from colonnade.passes.merge_empty_rows import MergeEmptyRows
from colonnade.passes.merge_unique import MergeUnique
from colonnade.passes.pipelines import COLUMNS
from colonnade.passes.ragged_inputs import RaggedInputs
from colonnade.testing.graphs import Builder, check_passes

COLUMN = dict(begin_mask=1, end_mask=1, shrink_axis_mask=2)
FLOATS = torch.tensor([[-1.0], [0.0], [5.0], [float("nan")], [float("inf")], [12.0]])


def applied(log: Log, name: str) -> list[str]:
    return [e.reason for e in log.applied() if e.pass_name == name]


def rejected(log: Log, name: str) -> list[str]:
    return [e.reason for e in log.rejected() if e.pass_name == name]


def bucketize(*boundaries: float) -> Bucketize:
    return Bucketize(Const(np.array(boundaries, dtype=np.float32)))


def column0(b: Builder, matrix: Any) -> Any:
    return b.add(StridedSlice(**COLUMN), matrix, [0, 0], [0, 1], [1, 1])


def guard(b: Builder, ids: Any, kind: str, bound: int) -> Any:
    keep = b.add(Reshape(), b.add(Where(), b.add(Compare(kind), ids, np.array(bound, np.int32))), [-1])
    return b.add(Gather(), ids, keep, 0)


@pytest.mark.parametrize(
    ("kind", "bound", "dropped"), [("ge", 0, True), ("lt", 4, True), ("lt", 3, False), ("gt", 0, False)]
)
def test_the_last_bucket_of_bucketize_counts(kind: str, bound: int, dropped: bool) -> None:
    b = Builder()
    ids = b.add(Reshape(), b.add(bucketize(0, 5, 10), b.input("x", "float32", "B", 1)), [-1])
    graph = b.done(y=guard(b, ids, kind, bound))
    log = check_passes(graph, [DropGuards()], [{"x": FLOATS}, {"x": FLOATS[:0]}])
    assert bool(applied(log, "drop-guards")) == dropped
    if not dropped:
        assert "not proven all true" in rejected(log, "drop-guards")[0]


def test_a_narrowing_cast_is_not_the_identity() -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    wide = b.add(Reshape(), guard(b, b.add(Cast("int32"), x), "ge", 0), [-1])
    values = torch.tensor([2**32 + 5, 2**31, -1, 7])
    log = check_passes(b.done(y=wide), [DropIdentities(), DropGuards()], [{"x": values}])
    assert not applied(log, "drop-guards") and "not proven all true" in rejected(log, "drop-guards")[0]


AS_GIVEN = tuple(p for p in COLUMNS if not isinstance(p, RaggedInputs))
"""Without the pass that holds every request to sorted rows."""


def sparse(b: Builder) -> tuple[Any, Any, Any]:
    return b.input("indices", "int64", "N", 2), b.input("values", "int64", "N"), b.input("shape", "int64", 2)


def feed(rows: Iterable[tuple[int, int]], values: Iterable[int], shape: tuple[int, int]) -> dict[str, torch.Tensor]:
    return {
        "indices": torch.tensor(list(rows), dtype=torch.int64).reshape(-1, 2),
        "values": torch.tensor(list(values), dtype=torch.int64),
        "shape": torch.tensor(shape),
    }


def pooled(b: Builder, pooling: str, indices: Any, values: Any, shape: Any, default: int = 0) -> tuple[Any, Any]:
    fill = b.add(SparseFillEmptyRows(), indices, values, shape, np.array(default, np.int64))
    rows = column0(b, b.item(fill, 0))
    return b.add(SparseSegmentReduce(pooling), b.table("t", 4, 3), b.item(fill, 1), rows), fill


def test_a_sparse_input_may_be_unsorted_so_filling_stays() -> None:
    b = Builder()
    y, _ = pooled(b, "mean", *sparse(b))
    log = check_passes(b.done(y=y), AS_GIVEN, [feed([(1, 0), (0, 0)], [2, 1], (3, 1))])
    assert "not proven sorted" in rejected(log, "merge-empty-rows")[0]


def test_a_one_wide_sparse_input_may_carry_duplicates_so_it_is_pooled() -> None:
    b = Builder()
    y, _ = pooled(b, "mean", *sparse(b))
    log = check_passes(b.done(y=y), COLUMNS, [feed([(0, 0), (0, 0)], [0, 1], (2, 1))])
    assert not applied(log, "pool-single-rows") and "exactly one id" in rejected(log, "pool-single-rows")[0]


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn"])
def test_missing_values_make_trailing_empty_rows_that_are_kept(pooling: str) -> None:
    b = Builder()
    x = b.input("x", "int32", "B", 1)
    where = b.add(Where(), b.add(Compare("ne"), x, np.array(-1, np.int32)))
    values = b.add(Cast("int64"), b.add(GatherNd(), x, where))
    shape = b.add(Cast("int64"), b.add(Shape("int32"), x))
    y, fill = pooled(b, pooling, where, values, shape)
    tiled = b.add(Tile(), b.add(Reshape(), b.item(fill, 2), [-1, 1]), [1, 3])
    y = b.add(Select(v1=True), tiled, b.add(ZerosLike(), y), y)
    feeds = [{"x": torch.tensor(v, dtype=torch.int32).reshape(-1, 1)} for v in ([1, -1, 3, -1], [-1, -1], [0], [])]
    log = check_passes(b.done(y=y), COLUMNS, feeds[:3])
    assert applied(log, "merge-empty-rows") and applied(log, "drop-empty-selects") and applied(log, "extract-columns")


def test_a_segment_without_filling_loses_trailing_rows_so_it_stays() -> None:
    b = Builder()
    x = b.input("x", "int32", "B", 1)
    where = b.add(Where(), b.add(Compare("ne"), x, np.array(-1, np.int32)))
    y = b.add(SparseSegmentReduce("sum"), b.table("t", 4, 3), b.add(GatherNd(), x, where), column0(b, where))
    log = check_passes(b.done(y=y), COLUMNS, [{"x": torch.tensor([[1], [-1], [2], [-1]], dtype=torch.int32)}])
    assert "trailing empty rows" in rejected(log, "merge-empty-rows")[0]
    assert not applied(log, "extract-columns")


def test_rows_of_another_mask_are_not_the_columns_rows() -> None:
    b = Builder()
    x, z = b.input("x", "int32", "B", 1), b.input("z", "int32", "B", 1)
    mine = b.add(Where(), b.add(Compare("ne"), x, np.array(-1, np.int32)))
    other = b.add(Where(), b.add(Compare("ne"), z, np.array(-1, np.int32)))
    count = b.add(Gather(), b.add(Shape("int32"), x), 0, 0)
    bag = b.add(EmbeddingBag("sum", None), b.table("t", 4, 3), b.add(GatherNd(), x, mine), column0(b, other), count)
    feeds = [{"x": torch.tensor([[1], [-1]], dtype=torch.int32), "z": torch.tensor([[-1], [2]], dtype=torch.int32)}]
    log = check_passes(b.done(y=bag), COLUMNS, feeds)
    assert "same elements" in rejected(log, "extract-columns")[0]


def test_a_dense_input_of_several_values_a_row_keeps_its_rows() -> None:
    b = Builder()
    x = b.input("x", "string", "B", 3)
    where = b.add(Where(), b.add(Compare("ne"), x, np.array(b"", object)))
    ids = b.add(StringToHashBucket(4), b.add(GatherNd(), x, where))
    shape = b.add(Cast("int64"), b.add(Shape("int32"), x))
    y, fill = pooled(b, "sum", where, ids, shape)
    tiled = b.add(Tile(), b.add(Reshape(), b.item(fill, 2), [-1, 1]), [1, 3])
    y = b.add(Select(v1=True), tiled, b.add(ZerosLike(), y), y)
    values = np.array([[b"a", b"", b"c"], [b"", b"", b""], [b"x", b"y", b"z"]], dtype=object)
    log = check_passes(b.done(y=y), COLUMNS, [{"x": values}])
    assert applied(log, "extract-columns")


@pytest.mark.parametrize(("begin", "end", "stride"), [(-1, -5, -1), (3, -5, -1)])
def test_a_reversed_slice_is_no_identity(begin: int, end: int, stride: int) -> None:
    b = Builder()
    x = b.input("x", "float32", 4)
    y = b.add(StridedSlice(), x, [begin], [end], [stride])
    log = check_passes(b.done(y=y), [DropIdentities()], [{"x": torch.arange(4.0)}])
    assert not applied(log, "drop-identities") and "reversed" in rejected(log, "drop-identities")[0]


def test_a_slice_that_may_cut_is_no_identity() -> None:
    b = Builder()
    x = b.input("x", "float32", "B", 4)
    y = b.add(Slice(), x, [0, 0], [-1, 3])
    log = check_passes(b.done(y=y), [DropIdentities()], [{"x": torch.arange(8.0).reshape(2, 4)}])
    assert not applied(log, "drop-identities")


@pytest.mark.parametrize(("zero", "dropped"), [(0.0, False), (-0.0, True)])
def test_adding_plus_zero_changes_minus_zero(zero: float, dropped: bool) -> None:
    b = Builder()
    y = b.add(Add(), b.input("x", "float32", "B", 2), np.array(zero, np.float32))
    x = torch.tensor([[-0.0, 0.0], [1.0, float("nan")]])
    log = check_passes(b.done(y=y), [DropIdentities()], [{"x": x}])
    assert bool(applied(log, "drop-identities")) == dropped


def test_a_neutral_operand_that_broadcasts_is_no_identity() -> None:
    b = Builder()
    y = b.add(Mul(), b.input("x", "float32", "B", 1), np.ones((1, 3), np.float32))
    log = check_passes(b.done(y=y), [DropIdentities()], [{"x": torch.tensor([[2.0], [3.0]])}])
    assert "broadcasts" in rejected(log, "drop-identities")[0]


def test_a_sparse_reshape_to_another_shape_stays() -> None:
    b = Builder()
    indices, values, shape = sparse(b)
    reshaped = b.add(SparseReshape(), indices, shape, np.array([-1, 3], np.int64))
    log = check_passes(
        b.done(y=b.item(reshaped, 0), z=values), [DropSparseReshapes()], [feed([(0, 1), (1, 2)], [5, 6], (3, 4))]
    )
    assert not applied(log, "drop-sparse-reshapes") and rejected(log, "drop-sparse-reshapes")


def test_the_inverse_of_another_unique_is_not_merged() -> None:
    b = Builder()
    x, z = b.input("x", "int64", "N"), b.input("z", "int64", "N")
    first, second = b.add(Unique("int32"), x), b.add(Unique("int32"), z)
    rows = b.input("rows", "int64", "N")
    data = b.add(Gather(), b.table("t", 4, 3), b.item(first, 0), 0)
    y = b.add(SparseSegmentReduce("sum"), data, b.item(second, 1), rows)
    feeds = [{"x": torch.tensor([3, 3, 1]), "z": torch.tensor([1, 0, 1]), "rows": torch.tensor([0, 0, 1])}]
    log = check_passes(b.done(y=y), [MergeUnique()], feeds)
    assert "not the inverse of the same unique" in rejected(log, "merge-unique")[0]


def test_the_same_unique_is_merged() -> None:
    b = Builder()
    x, rows = b.input("x", "int64", "N"), b.input("rows", "int64", "N")
    unique = b.add(Unique("int32"), x)
    data = b.add(Gather(), b.table("t", 4, 3), b.item(unique, 0), 0)
    y = b.add(SparseSegmentReduce("mean"), data, b.item(unique, 1), rows)
    log = check_passes(b.done(y=y), [MergeUnique()], [{"x": torch.tensor([3, 1, 3]), "rows": torch.tensor([0, 0, 1])}])
    assert applied(log, "merge-unique")


def test_concats_along_different_axes_are_not_flattened() -> None:
    b = Builder()
    x = b.input("x", "float32", "B", 2)
    y = b.add(Concat(), b.add(Concat(), x, x, 1), b.add(Concat(), x, x, 1), 0)
    log = check_passes(b.done(y=y), [FlattenConcats()], [{"x": torch.arange(4.0).reshape(2, 2)}])
    assert "same axis" in rejected(log, "flatten-concats")[0]


def test_an_indicator_of_another_filling_is_not_the_bags() -> None:
    b = Builder()
    x, z = b.input("x", "int32", "B", 1), b.input("z", "int32", "B", 1)
    fills = []
    for key in (x, z):
        where = b.add(Where(), b.add(Compare("ne"), key, np.array(-1, np.int32)))
        shape = b.add(Cast("int64"), b.add(Shape("int32"), key))
        values = b.add(Cast("int64"), b.add(GatherNd(), key, where))
        fills.append(b.add(SparseFillEmptyRows(), where, values, shape, np.array(0, np.int64)))
    y = b.add(SparseSegmentReduce("sum"), b.table("t", 4, 3), b.item(fills[0], 1), column0(b, b.item(fills[0], 0)))
    tiled = b.add(Tile(), b.add(Reshape(), b.item(fills[1], 2), [-1, 1]), [1, 3])
    y = b.add(Select(v1=True), tiled, b.add(ZerosLike(), y), y)
    feeds = [{"x": torch.tensor([[1], [-1]], dtype=torch.int32), "z": torch.tensor([[-1], [2]], dtype=torch.int32)}]
    log = check_passes(b.done(y=y), COLUMNS, feeds)
    assert "other indices" in rejected(log, "drop-empty-selects")[0] and not applied(log, "drop-empty-selects")


def test_a_fill_with_a_default_outside_the_table_stays() -> None:
    b = Builder()
    x = b.input("x", "int32", "B", 1)
    where = b.add(Where(), b.add(Compare("ne"), x, np.array(-1, np.int32)))
    shape = b.add(Cast("int64"), b.add(Shape("int32"), x))
    values = b.add(Cast("int64"), b.add(GatherNd(), x, where))
    y, _ = pooled(b, "sum", where, values, shape, default=4)
    log = check_passes(b.done(y=y), [MergeEmptyRows()], [{"x": torch.tensor([[1], [2]], dtype=torch.int32)}])
    assert "default id 4" in rejected(log, "merge-empty-rows")[0]


@pytest.mark.parametrize(("begin", "end"), [([0, 0], [1, 0]), ([1, 0], [0, 0]), ([0, 0], [2, 0])])
def test_a_slice_added_to_the_whole_is_not_taken_for_the_whole(begin: list[int], end: list[int]) -> None:
    b = Builder()
    x = b.input("x", "float32", "B", 3)
    cut = b.add(StridedSlice(begin_mask=2, end_mask=3 if begin[0] else 2), x, begin, end, [1, 1])
    rows = 2 if begin[0] or end[0] == 2 else 5
    log = check_passes(b.done(y=b.add(Add(), x, cut)), COLUMNS, [{"x": torch.randn(rows, 3)}])
    assert not applied(log, "drop-identities")


def test_rows_counted_by_other_data_are_not_one_a_row() -> None:
    b = Builder()
    ids, mask = b.input("ids", "int64", "B"), b.input("mask", "bool", "M")
    count = b.add(Gather(), b.add(Cast("int64"), b.add(Shape(), b.add(Where(), mask))), np.array(0, np.int32), 0)
    rows = b.add(Range(), np.array(0, np.int64), count, np.array(1, np.int64))
    y = b.add(SparseSegmentReduce("sum"), b.table("t", 4, 3), ids, rows)
    feed = {"ids": torch.tensor([3, 1]), "mask": torch.tensor([True, False, True])}
    log = check_passes(b.done(y=y), COLUMNS, [feed])
    assert "as many ids as rows" in rejected(log, "pool-single-rows")[0]
