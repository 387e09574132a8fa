"""Weighted pooling as TensorFlow spells it becomes one bag; what differs by a hair does not, for the right reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.div_no_nan import DivNoNan
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.pow import Pow
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.segment_sum import SegmentSum
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.unique import Unique
from colonnade.ops.graph.where import Where
from colonnade.passes.base import Log
from colonnade.passes.merge_weighted import MergeWeighted
from colonnade.testing.graphs import Builder, check_passes


def decisions(log: Log, applied: bool) -> list[str]:
    return [e.reason for e in log.events if e.applied == applied and e.pass_name == "merge-weighted"]


def weighted(
    pooling: str,
    *,
    missing: float = 1.0,
    default: int = 0,
    power: float = 2.0,
    sorted_rows: bool = True,
    other_indices: bool = False,
    other_divisor: bool = False,
) -> Any:
    """The graph of a weighted lookup with empty rows filled."""
    b = Builder()
    mask = b.input("mask", "bool", "B", 3)
    ids, weights = b.input("ids", "int64", "N"), b.input("weights", "float32", "N")
    shape = b.add(Cast("int64"), b.add(Shape("int32"), mask))
    indices = b.add(Where(), mask) if sorted_rows else b.input("indices", "int64", "N", 2)
    others = b.input("others", "int64", "N", 2) if other_indices else indices
    fill = b.add(SparseFillEmptyRows(), indices, ids, shape, np.array(default, np.int64))
    factors = b.add(SparseFillEmptyRows(), others, weights, shape, np.array(missing, np.float32))
    rows = b.add(StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2), b.item(fill, 0), [0, 0], [0, 1], [1, 1])
    unique = b.add(Unique("int32"), b.item(fill, 1))
    vectors = b.add(Gather(), b.add(Gather(), b.table("t", 4, 3), b.item(unique, 0), 0), b.item(unique, 1), 0)
    filled = b.item(factors, 1)
    matrix = b.add(Reshape(), filled, b.add(Concat(), b.add(Shape("int32"), filled), [1], 0))
    total = b.add(SegmentSum(), b.add(Mul(), vectors, matrix), rows)
    if pooling == "sum":
        return b.done(y=total)
    if pooling == "sqrtn":
        squares = b.add(Pow(), matrix, np.array(power, np.float32))
        return b.done(y=b.add(DivNoNan(), total, b.add(Sqrt(), b.add(SegmentSum(), squares, rows))))
    divided = b.add(Mul(), matrix, matrix) if other_divisor else matrix
    return b.done(y=b.add(DivNoNan(), total, b.add(SegmentSum(), divided, rows)))


MASK = torch.tensor([[True, False, True], [False, False, False], [False, True, False], [False, False, False]])
FEED = {
    "mask": MASK,
    "ids": torch.tensor([1, 3, 2]),
    "weights": torch.tensor([0.5, 2.0, -1.0]),
    "indices": torch.nonzero(MASK),
    "others": torch.nonzero(MASK),
}


def feed(graph: Any) -> dict[str, torch.Tensor]:
    return {key: FEED[key] for key in graph.inputs}


@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn"])
def test_a_weighted_lookup_is_one_bag(pooling: str) -> None:
    graph = weighted(pooling)
    log = check_passes(graph, [MergeWeighted()], [feed(graph)])
    assert decisions(log, True) and not decisions(log, False)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"missing": 2.0}, "with the weight 1"),
        ({"default": 4}, "one row of the table"),
        ({"sorted_rows": False}, "not proven sorted"),
        ({"other_indices": True}, "not filled by the same indices"),
        ({"other_divisor": True}, "not the sum of the weights"),
        ({"pooling": "sqrtn", "power": 3.0}, "not the sum of the weights"),
    ],
)
def test_what_is_no_weighted_lookup(options: dict[str, Any], reason: str) -> None:
    graph = weighted(**{"pooling": "mean", **options})
    feeds = [] if "default" in options else [feed(graph)]
    log = check_passes(graph, [MergeWeighted()], feeds)
    assert reason in decisions(log, False)[0] and not decisions(log, True)
