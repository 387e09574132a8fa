"""Weights put in the places of their ids are one bag; what differs by a hair is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.scatter_nd import ScatterNd
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_reorder import SparseReorder
from colonnade.ops.graph.sparse_slice import SparseSlice
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.weighted_bag import WeightedBag
from colonnade.ops.graph.where import Where
from colonnade.passes.one_hots import WIDEST
from colonnade.passes.scatter_weights import ScatterWeights
from colonnade.testing.graphs import Builder, check_passes

MASK = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
FEED = {
    "mask": MASK,
    "ids": torch.tensor([[1, 0, -1], [0, 0, 0], [4, 1, 1]]),
    "weights": torch.tensor([[0.5, 0, 7], [0, 0, 0], [float("nan"), -0.0, float("inf")]]),
}


def built(
    *,
    start: tuple[int, int] = (0, 0),
    depth: int = 4,
    of_slice: int | None = None,
    by: int = 0,
    rows: str = "b0",
    reordered: bool = True,
    scattered: str = "slice",
) -> Any:
    """`scatter_nd(sparse_slice(sparse_reorder(rows and ids, weights)))`."""
    b = Builder()
    mask, x, y = (
        b.input("mask", "bool", "b0", 3),
        b.input("ids", "int64", "b0", 3),
        b.input("weights", "float32", "b0", 3),
    )
    places = b.add(Where(), mask)
    ids, weights = b.add(GatherNd(), x, places), b.add(GatherNd(), y, places)
    shape = b.add(Cast("int64"), b.add(Shape("int32"), mask if rows == "b0" else b.input("more", "bool", rows, 3)))
    first = b.add(StridedSlice(), b.add(Shape("int64"), mask) if rows == "b0" else shape, [0], [1], [1])
    sizes = b.add(Concat(), first, np.array([depth], np.int64), 0)
    column = b.add(StridedSlice(begin_mask=1, end_mask=1), places, [0, by], [0, by + 1], [1, 1])
    matrix = b.add(Concat(), column, b.add(ExpandDims(), ids, 1), 1)
    sorted_ = b.add(SparseReorder(), matrix, weights, sizes)
    indices, values = (b.item(sorted_, 0), b.item(sorted_, 1)) if reordered else (matrix, weights)
    other = sizes if of_slice is None else b.add(Concat(), first, np.array([of_slice], np.int64), 0)
    cut = b.add(SparseSlice(), indices, values, sizes, np.array(start, np.int64), other)
    parts = [b.item(cut, k) for k in range(3)]
    if scattered == "shape":
        parts[2] = sizes
    return b.done(y=b.add(ScatterNd(), *parts))


@pytest.mark.parametrize("depth", [1, 2, 4, 5])
def test_weights_are_a_bag(depth: int) -> None:
    graph = built(depth=depth)
    assert list(check_passes(graph, [ScatterWeights()], [FEED]).applied())
    assert [n.target.pooling for n in graph.nodes() if isinstance(n.target, WeightedBag)] == ["marks"]


def test_a_weight_stands_in_the_place_of_its_id_alone() -> None:
    bag = WeightedBag("marks")
    ids, rows, weights = (
        torch.tensor([1, 0, 1]),
        torch.tensor([0, 1, 1]),
        torch.tensor([float("nan"), -0.0, float("inf")]),
    )
    made = np.asarray(bag.reference(torch.eye(3), ids, rows, torch.tensor(3), weights))
    np.testing.assert_array_equal(made, [[0, float("nan"), 0], [0, float("inf"), 0], [0, 0, 0]])
    assert not np.signbit(made).any()


@pytest.mark.parametrize(
    "other",
    [
        {"start": (0, 1)},
        {"of_slice": 3},
        {"by": 1},
        {"rows": "b1"},
        {"reordered": False},
        {"scattered": "shape"},
        {"depth": WIDEST + 1},
    ],
)
def test_by_a_hair(other: dict[str, Any]) -> None:
    log = check_passes(built(**other), [ScatterWeights()], [])
    assert not list(log.applied())
