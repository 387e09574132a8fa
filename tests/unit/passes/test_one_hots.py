"""One-hot vectors that become rows of an identity matrix, and those that do not, for the right reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided

from colonnade.core.consts import Const
from colonnade.core.identity import identity, is_identity, window_of
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.max import Max
from colonnade.ops.graph.mean import Mean
from colonnade.ops.graph.minimum import Minimum
from colonnade.ops.graph.one_hot import OneHot
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.sum import Sum
from colonnade.ops.graph.vocabulary import Vocabulary
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Log
from colonnade.passes.one_hots import MOST_MADE, WIDEST
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes
from tests.unit.passes.test_hair_elements import columns

FEED = {"x": torch.tensor([[1, 4, 1], [-1, -1, -1], [0, 5, -7], [3, -1, 3]])}
EMPTY = {"x": torch.zeros((0, 3), dtype=torch.int64)}


def rejected(log: Log) -> list[str]:
    return [e.reason for e in log.rejected() if e.pass_name == "one-hots"]


def counted(
    *,
    depth: int = 5,
    on: Any = 1.0,
    off: Any = 0.0,
    missing: int = -1,
    axis: int = 1,
    at: int = -1,
    other: bool = False,
) -> Any:
    """Counts of the ids in an input that are not -1."""
    b = Builder()
    x = b.input("x", "int64", "B", 3)
    where = b.add(Where(), b.add(Compare("ne"), x, np.array(-1)))
    shape = b.add(Cast("int64"), b.add(Shape("int32"), x))
    if other:
        shape = b.add(Cast("int64"), b.add(Shape("int32"), b.input("z", "int64", "B", 4)))
    dense = b.add(SparseToDense(), where, shape, b.add(GatherNd(), x, where), np.array(missing))
    marks = b.add(OneHot(at), dense, depth, np.array(on), np.array(off))
    return b.done(y=b.add(Sum(), marks, [axis]))


def test_the_identity_matrix_is_a_window_moved_along() -> None:
    for size in (1, 2, 3, 64):
        made = identity(size)
        assert np.array_equal(made, np.eye(size, dtype=np.float32)) and not made.flags.writeable


def f32(value: float) -> Any:
    return np.float32(value)


def test_counts_are_a_column() -> None:
    graph = counted(on=f32(1), off=f32(0))
    check_passes(graph, COLUMNS, [FEED, EMPTY])
    (column,) = columns(graph)
    assert column.table == "identity[5]" and column.pooling == "sum" and len(column.filters) == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"on": f32(2), "off": f32(0)}, "not 1 and 0 in float32"),
        ({"on": f32(1), "off": f32(-0.0)}, "not 1 and 0 in float32"),
        ({"on": np.float64(1), "off": np.float64(0)}, "not 1 and 0 in float32"),
        ({"on": f32(1), "off": f32(0), "missing": 4}, "a place without an id is marked"),
        ({"on": f32(1), "off": f32(0), "axis": 2}, "not summed over the places"),
        ({"on": f32(1), "off": f32(0), "axis": 0}, "not summed over the places"),
        ({"on": f32(1), "off": f32(0), "at": 1}, "not the last axis"),
        ({"on": f32(1), "off": f32(0), "depth": WIDEST + 1}, "are no column"),
        ({"on": f32(1), "off": f32(0), "other": True}, "the mask's own shape"),
    ],
)
def test_counts_that_are_none(options: dict[str, Any], reason: str) -> None:
    feed = FEED | ({"z": torch.zeros((4, 4), dtype=torch.int64)} if "other" in options else {})
    log = check_passes(counted(**options), COLUMNS, [feed])
    assert reason in rejected(log)[0]


def marked(width: int, depth: int, shape: list[int]) -> Any:
    b = Builder()
    x = b.input("x", "float32", "B", width)
    buckets = b.add(Bucketize(columns_bounds(2)), x)
    marks = b.add(OneHot(), buckets, depth, np.float32(1), np.float32(0))
    return b.done(y=b.add(Reshape(), marks, shape))


def columns_bounds(count: int) -> Any:
    return Const(np.arange(count, dtype=np.float32))


FLOATS = {"x": torch.tensor([[-1.0, 0.5, 7.0], [float("nan"), 0.0, -0.0]])}


def test_marks_side_by_side_are_a_column() -> None:
    graph = marked(3, 3, [-1, 9])
    check_passes(graph, COLUMNS, [FLOATS])
    (column,) = columns(graph)
    assert column.table == "identity[9]" and column.ids_proven


def test_marks_of_ids_that_may_mark_nothing_are_rows_of_a_table_with_one_of_zeros() -> None:
    graph = marked(3, 2, [-1, 6])
    check_passes(graph, COLUMNS, [FLOATS])
    (column,) = columns(graph)
    assert column.pooling == "none" and column.ids_proven


def test_a_table_with_a_row_of_zeros_is_not_made_beyond_its_size() -> None:
    assert "is not made" in rejected(check_passes(several("none", depth=MOST_MADE + 1), COLUMNS, [FLOATS]))[0]


def several(reduced: str, depth: int = 2, axis: int = 1, keep: bool = False) -> Any:
    """Marks of three buckets a row, reduced over them."""
    b = Builder()
    buckets = b.add(Bucketize(columns_bounds(2)), b.input("x", "float32", "B", 3))
    if depth > MOST_MADE:
        buckets = b.add(Vocabulary(Const(np.array([1])), Const(np.array([0])), -1), b.add(Cast("int64"), buckets))
    marks = b.add(OneHot(), buckets, depth, np.float32(1), np.float32(0))
    if reduced == "none":
        return b.done(y=marks)
    return b.done(y=b.add(Max(keep) if reduced == "max" else Mean(keep), marks, [axis]))


@pytest.mark.parametrize(("reduced", "dense"), [("max", Minimum), ("mean", RealDiv), ("none", Reshape)])
def test_marks_of_several_values_are_a_column(reduced: str, dense: type) -> None:
    graph = several(reduced)
    check_passes(graph, COLUMNS, [FLOATS, {"x": FLOATS["x"][:0]}])
    assert len(columns(graph)) == 1 and any(isinstance(n.target, dense) for n in graph.nodes())


@pytest.mark.parametrize("options", [{"axis": 2}, {"axis": 0}, {"keep": True}])
@pytest.mark.parametrize("reduced", ["max", "mean"])
def test_marks_reduced_otherwise_are_none(reduced: str, options: dict[str, Any]) -> None:
    log = check_passes(several(reduced, **options), COLUMNS, [FLOATS])
    assert "not reduced over" in rejected(log)[-1]


def test_windows_are_told_from_other_matrices() -> None:
    made = identity(5)
    assert window_of(made) is not None and is_identity(made) and is_identity(np.eye(5, dtype=np.float32))
    assert Const(made) is Const(np.eye(5, dtype=np.float32)) and Const(made) is not Const(identity(6))
    others = [np.eye(5, dtype=np.float32), identity(1), made[1:], made[::-1]]
    vector = np.zeros(9, np.float32)
    vector[[3, 4]] = 1
    others.append(as_strided(vector[4:], (5, 5), (-4, 4)))
    assert all(window_of(other) is None for other in others)
    assert window_of(identity(1 << 20)) is not None  # of which a matrix would have 4 TiB


@pytest.mark.parametrize(
    ("depth", "shape", "reason"),
    [(3, [-1, 3], "not side by side"), (WIDEST // 3 + 1, [-1, 3 * (WIDEST // 3 + 1)], "are no column")],
)
def test_marks_that_are_none(depth: int, shape: list[int], reason: str) -> None:
    log = check_passes(marked(3, depth, shape), COLUMNS, [FLOATS])
    assert reason in rejected(log)[0]


def test_marks_of_ids_that_are_known_stay_as_they_are() -> None:
    b = Builder()
    ids = b.add(FloorMod(), b.input("x", "int64", "B", 3), np.int64(1))
    marks = b.add(OneHot(), ids, np.int32(1), np.float32(1), np.float32(0))
    graph = b.done(y=b.add(Reshape(), marks, [-1, 3]))
    check_passes(graph, COLUMNS, [{"x": torch.tensor([[-5, 0, 7], [1, 2, 3]])}])
    assert not columns(graph)
