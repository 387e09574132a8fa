"""`sum-rows`: rows that splits say are summed from split to split, others by a hair are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.errors import ColonnadeError
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.max import Max
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.row_splits import RowSplits
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.sum_rows import SumRows as Sums
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.unsorted_segment_sum import UnsortedSegmentSum
from colonnade.ops.graph.where import Where
from colonnade.passes.sum_rows import SumRows
from colonnade.testing.graphs import Builder, check_passes

FEEDS = [
    {"x": torch.tensor([[1.5, 2.0], [3.0, -1.0], [0.25, 4.0]]), "splits": torch.tensor([0, 0, 2, 3, 3])},
    {"x": torch.zeros(0, 2), "splits": torch.tensor([0, 0])},
    {"x": torch.zeros(0, 2), "splits": torch.tensor([0])},
]


def rows_of(b: Builder, splits: Any, *, kind: str = "lt", step: int = 1) -> tuple[Any, Any]:
    """The row of each element and the number of rows, as a frontend spells them."""
    after = b.add(StridedSlice(end_mask=1), splits, [1], [0], [1])
    before = b.add(StridedSlice(begin_mask=1), splits, [0], [-1], [1])
    lengths = b.add(Sub(), after, before)
    count = b.add(Squeeze(), b.add(Sub(), b.add(Shape("int64"), splits), np.array([1])))
    width = b.add(Maximum(), np.array(0), b.add(Max(), lengths, np.array([0])))
    numbers = b.add(Range(), np.array(0), count, np.array(step))
    tiled = b.add(Tile(), b.add(ExpandDims(), numbers, np.array(1)), b.add(Pack(0), np.array(1), width))
    places = b.add(Range(), np.array(0), width, np.array(1))
    mask = b.add(Compare(kind), places, b.add(ExpandDims(), lengths, np.array(1)))
    kept = b.add(Squeeze((1,)), b.add(Where(), b.add(Reshape(), mask, np.array([-1]))))
    return b.add(Gather(), b.add(Reshape(), tiled, np.array([-1])), kept, np.array(0)), count


def summed(log: Any) -> bool:
    return any(e.applied for e in log.events)


def graph(*, dtype: str = "float32", kind: str = "lt", step: int = 1, more: int = 0, made: bool = False) -> Any:
    b = Builder()
    splits = b.input("splits", "int64", "S")
    rows, count = rows_of(b, b.add(Mul(), splits, np.array(1)) if made else splits, kind=kind, step=step)
    x = b.input("x", "float32", "N", 2)
    x = x if dtype == "float32" else b.add(Cast(dtype), x)
    count = b.add(Sub(), count, np.array(-more)) if more else count
    return b.done(y=b.add(UnsortedSegmentSum(), x, rows, count))


def test_rows_of_splits_are_summed() -> None:
    assert summed(check_passes(graph(), (SumRows(),), FEEDS))


@pytest.mark.parametrize("by_a_hair", [{"dtype": "float64"}, {"more": 1}, {"made": True}])
def test_others_are_left(by_a_hair: dict[str, Any]) -> None:
    assert not summed(check_passes(graph(**by_a_hair), (SumRows(),), FEEDS))


def test_rows_that_are_not_those_of_the_splits_are_left() -> None:
    assert not summed(check_passes(graph(step=2, more=9), (SumRows(),), FEEDS[2:]))


def test_splits_that_do_not_end_with_x_are_errors() -> None:
    x, splits = torch.ones(3, 2), torch.tensor([0, 2])
    for bad in (splits, torch.tensor([0, 4]), torch.tensor([1, 3]), torch.tensor([0, 2, 1, 3])):
        with pytest.raises(ColonnadeError):
            Sums().reference(x, bad)
    with pytest.raises(ColonnadeError):
        RowSplits("r", "n").reference(torch.tensor([0, 2, 1]))
