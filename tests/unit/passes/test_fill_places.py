"""Crosses spread over their rows are reshaped where no one sees that a batch without rows has no width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.ir.graph import Graph
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.size import Size
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.passes.base import Log
from colonnade.passes.fill_places import FillPlaces
from colonnade.testing.graphs import Builder, check_passes

X = torch.tensor([[1, 2], [3, 4], [5, 6]])
FEEDS = [{"x": X, "z": X[:, :1]}, {"x": X[:0], "z": X[:0, :1]}]


def reasons(log: Log) -> list[str]:
    return [e.reason for e in log.rejected() if e.pass_name == "fill-places"]


def spread(b: Builder, shape: Any = None, width: int = 2) -> Any:
    """A cross of `width` ids a row, as a matrix."""
    made = b.add(SparseCross(7, 5), b.input("x", "int64", "B", width), b.input("z", "int64", "B", 1))
    sizes = b.item(made, 2) if shape is None else shape
    return b.add(SparseToDense(), b.item(made, 0), sizes, b.item(made, 1), np.array(0))


def spreads(graph: Graph) -> int:
    return sum(isinstance(n.target, SparseToDense) for n in graph.nodes())


def test_the_rows_alone_are_seen() -> None:
    b = Builder()
    ids = spread(b)
    rows = b.add(Gather(), b.table("t", 7, 3), ids, 0)
    count = b.add(StridedSlice(shrink_axis_mask=1), b.add(Shape("int32"), rows), [0], [1], [1])
    graph = b.done(y=b.add(Reshape(), rows, b.add(Pack(), count, 6)), count=count)
    check_passes(graph, [FillPlaces()], FEEDS)
    assert not spreads(graph)


@pytest.mark.parametrize("seen", ["whole", "width", "size", "number"])
def test_the_width_is_seen(seen: str) -> None:
    b = Builder()
    ids = spread(b)
    width = b.add(StridedSlice(shrink_axis_mask=1), b.add(Shape("int32"), ids), [1], [2], [1])
    size = b.add(Size("int32"), ids)
    made = {"whole": ids, "width": width, "size": size, "number": b.add(Cast("float32"), width)}[seen]
    graph = b.done(y=made)
    log = check_passes(graph, [FillPlaces()], FEEDS)
    assert spreads(graph) and ("0 where there are no rows" in reasons(log)[0])


def test_wider_rows_than_the_values_fill() -> None:
    b = Builder()
    graph = b.done(y=spread(b, np.array([3, 4])))
    log = check_passes(graph, [FillPlaces()], FEEDS[:1])
    assert spreads(graph) and reasons(log)
