"""`spread-rows`: elements that keep their places are read of padded rows; others by a hair are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.errors import FeedError
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ir.interpret import interpret
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.ceil import Ceil
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.pad_rows import PadRows
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.row_ends import RowEnds
from colonnade.ops.graph.segment_max import SegmentMax
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sparse_reshape import SparseReshape
from colonnade.ops.graph.sparse_segment_reduce import SparseSegmentReduce
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.sub import Sub
from colonnade.passes.base import Log
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes

COLUMN = StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2)
FIRST = StridedSlice(begin_mask=1, shrink_axis_mask=0)
ONE = np.array(1, np.int64)
FEEDS = [
    {
        "indices": torch.tensor([[0, 0], [0, 2], [2, 1]]),
        "shape": torch.tensor([4, 3]),
        "values": torch.tensor([2, 0, 3]),
    },
    {
        "indices": torch.zeros((0, 2), dtype=torch.int64),
        "shape": torch.tensor([2, 0]),
        "values": torch.tensor([]).long(),
    },
    {
        "indices": torch.zeros((0, 2), dtype=torch.int64),
        "shape": torch.tensor([0, 5]),
        "values": torch.tensor([]).long(),
    },
    {"indices": torch.tensor([[0, 0]]), "shape": torch.tensor([1, 1]), "values": torch.tensor([1])},
]


def applied(log: Log) -> int:
    return sum(e.applied and e.pass_name == "spread-rows" for e in log.events)


def columns(graph: Graph) -> list[Any]:
    return [n.target.column for n in graph.nodes() if isinstance(n.target, ColumnValue)]


def inputs(b: Builder) -> tuple[Any, Any, Any]:
    return b.input("indices", "int64", "N", 2), b.input("values", "int64", "N"), b.input("shape", "int64", 2)


def size(b: Builder, shape: Any, k: int) -> Any:
    return b.add(Gather(), shape, np.array(k, np.int32), np.array(0, np.int32))


def looked_up(b: Builder, indices: Any, values: Any, shape: Any, sizes: list[Any]) -> Any:
    """The vectors of the rows that the matrix has in another shape."""
    new = b.add(Pack(), *sizes)
    cut = b.add(SparseReshape(), indices, shape, new)
    filled = b.add(SparseFillEmptyRows(), b.item(cut, 0), values, b.item(cut, 1), np.array(0, np.int64))
    rows = b.add(COLUMN, b.item(filled, 0), [0, 0], [0, 1], [1, 1])
    return b.add(SparseSegmentReduce("mean"), b.table("t", 4, 3), b.item(filled, 1), rows)


def test_every_place_is_a_row() -> None:
    b = Builder()
    indices, values, shape = inputs(b)
    rows, width = (size(b, shape, k) for k in (0, 1))
    graph = b.done(y=looked_up(b, indices, values, shape, [b.add(Mul(), rows, width), b.constant(ONE)]))
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1
    (column,) = columns(graph)
    assert (column.name, column.default_row) == ("values", 0)
    falling = FEEDS[0] | {"indices": torch.tensor([[0, 2], [0, 0], [2, 1]])}
    with pytest.raises(FeedError, match="do not rise"):
        interpret(graph, falling)


@pytest.mark.parametrize("kind", ["turned", "as it was", "one row"])
def test_other_rows_are_left_alone(kind: str) -> None:
    b = Builder()
    indices, values, shape = inputs(b)
    rows, width = (size(b, shape, k) for k in (0, 1))
    total = b.add(Mul(), rows, width)
    sizes = {"turned": [width, rows], "as it was": [rows, width], "one row": [b.constant(ONE), total]}[kind]
    graph = b.done(y=looked_up(b, indices, values, shape, sizes))
    feeds = [f for f in FEEDS if int(f["shape"].prod()) > 1]
    assert not applied(check_passes(graph, COLUMNS, feeds))
    assert len(columns(graph)) == (kind == "as it was")


@pytest.mark.parametrize("default", [0, -1])
def test_dense_tensors_are_padded_rows(default: int) -> None:
    b = Builder()
    indices, values, shape = inputs(b)
    y = b.add(SparseToDense(), indices, shape, values, np.array(default, np.int64))
    graph = b.done(y=y)
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1
    (op,) = [n.target for n in graph.nodes() if isinstance(n.target, PadRows)]
    assert op.fill.array == default


def lengths(b: Builder, *, step: int = 1, more: float = 0.0, fill: int = 0, place: int = 1, row: int = 0) -> Graph:
    """The last place + 1 of each row, and zeros for the rows behind the last one with an element."""
    indices, values, shape = inputs(b)
    ends = b.add(Add(), b.add(COLUMN, indices, [0, place], [0, place + 1], [1, 1]), np.array(step, np.int64))
    found = b.add(SegmentMax(), ends, b.add(COLUMN, indices, [0, row], [0, row + 1], [1, 1]))
    scaled = b.add(RealDiv(), b.add(Cast("float64"), found), np.array(2.0))
    if more:
        scaled = b.add(Add(), scaled, np.array(more))
    whole = b.add(Cast("int64"), b.add(Ceil(), scaled))
    missing = b.add(Sub(), b.add(FIRST, shape, [0], [1], [1]), b.add(Shape("int64"), whole))
    behind = b.add(Fill(), missing, np.array(fill, np.int64))
    dense = b.add(SparseToDense(), indices, shape, values, np.array(0, np.int64))
    return b.done(y=b.add(Concat(), whole, behind, np.array(0, np.int32)), dense=dense)


def test_lengths_are_ends_of_rows() -> None:
    graph = lengths(Builder())
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 2
    assert sum(isinstance(n.target, RowEnds) for n in graph.nodes()) == 1


@pytest.mark.parametrize("change", [{"step": 2}, {"more": 0.5}, {"fill": 1}, {"place": 0}])
def test_lengths_by_a_hair_are_left_alone(change: dict[str, Any]) -> None:
    graph = lengths(Builder(), **change)
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1
    assert not any(isinstance(n.target, RowEnds) for n in graph.nodes())


def test_values_that_are_pooled_as_well_stay_as_they_are() -> None:
    b = Builder()
    indices, values, shape = inputs(b)
    rows, width = (size(b, shape, k) for k in (0, 1))
    places = looked_up(b, indices, values, shape, [b.add(Mul(), rows, width), b.constant(ONE)])
    pooled = looked_up(b, indices, values, shape, [rows, width])
    graph = b.done(places=places, pooled=pooled)
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1
    assert {str(column.ids) for column in columns(graph)} == {"Field(values)", "Field(values.padded)"} or len(
        columns(graph)
    ) == 2


def test_examples_that_are_not_spread_keep_their_op() -> None:
    b = Builder()
    from colonnade.core.examples import Feature

    parse = b.add(ParseExample((Feature("x", "int64", "sparse"),)), b.input("examples", "string", "B"))
    graph = b.done(y=b.item(parse, 1))
    assert not applied(check_passes(graph, COLUMNS, [{"examples": np.array([b""], object)}]))
    (op,) = [n.target for n in graph.nodes() if isinstance(n.target, ParseExample)]
    assert not op.widths
