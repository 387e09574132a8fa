"""One-hot vectors that become rows of an identity matrix, and those that do not, for the right reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.identity import identity
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.one_hot import OneHot
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.sum import Sum
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Log
from colonnade.passes.one_hots import WIDEST
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
        ({"on": f32(1), "off": f32(0), "depth": WIDEST + 1}, "is not made"),
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
    from colonnade.core.consts import Const

    return Const(np.arange(count, dtype=np.float32))


FLOATS = {"x": torch.tensor([[-1.0, 0.5, 7.0], [float("nan"), 0.0, -0.0]])}


def test_marks_side_by_side_are_a_column() -> None:
    graph = marked(3, 3, [-1, 9])
    check_passes(graph, COLUMNS, [FLOATS])
    (column,) = columns(graph)
    assert column.table == "identity[9]" and column.ids_proven


@pytest.mark.parametrize(
    ("depth", "shape", "reason"),
    [(2, [-1, 6], "may mark nothing"), (3, [-1, 3], "not side by side"), (400, [-1, 1200], "is not made")],
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
