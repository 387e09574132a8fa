"""`pool-segments`: rows that are proven to be in order are pooled, others by a hair are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.sub import Sub
from colonnade.ops.graph.unsorted_segment_sum import UnsortedSegmentSum
from colonnade.passes.pool_segments import PoolSegments
from colonnade.testing.graphs import Builder, check_passes

FEEDS = [
    {"ids": torch.tensor([4, 0, 4]), "splits": torch.tensor([0, 0, 2, 3, 3])},
    {"ids": torch.zeros(0, dtype=torch.int64), "splits": torch.tensor([0, 0])},
    {"ids": torch.zeros(0, dtype=torch.int64), "splits": torch.tensor([0])},
]


def parts(b: Builder) -> tuple[Any, Any, Any]:
    """ids, the row of each, the number of rows."""
    splits = b.input("splits", "int64", "S")
    ragged = b.add(RaggedInput("splits", rows="R", width="W"), splits, b.input("ids", "int64", "N"))
    rows = b.add(Squeeze((1,)), b.add(Slice(), b.item(ragged, 0), [0, 0], [-1, 1]))
    count = b.add(Squeeze(), b.add(Sub(), b.add(Shape("int32"), splits), [1]))
    return b.item(ragged, 1), rows, count


def pooled(log: Any) -> bool:
    return any(e.applied for e in log.events)


def test_rows_of_splits_are_pooled() -> None:
    b = Builder()
    ids, rows, count = parts(b)
    y = b.add(UnsortedSegmentSum(), b.add(Gather(), b.table("t", 5, 3), ids, 0), rows, count)
    assert pooled(check_passes(b.done(y=y), (PoolSegments(),), FEEDS))


@pytest.mark.parametrize(("value", "counts"), [(1.0, True), (2.0, False), (np.nextafter(1, 2, dtype="f4"), False)])
def test_ones_are_counted(value: float, counts: bool) -> None:
    b = Builder()
    ids, rows, count = parts(b)
    looked_up = b.add(Gather(), b.table("t", 5, 3), ids, 0)
    ones = b.add(Fill(), b.add(Shape("int32"), looked_up), np.float32(value))
    graph = b.done(y=b.add(UnsortedSegmentSum(), ones, rows, count))
    assert pooled(check_passes(graph, (PoolSegments(),), FEEDS)) == counts


@pytest.mark.parametrize("at", [[0, 2, 1, 1], [-1, 0, 1, 1]])
def test_rows_in_no_order_are_left(at: list[int]) -> None:
    b = Builder()
    looked_up = b.add(Gather(), b.table("t", 5, 3), b.input("ids", "int64", "N"), 0)
    y = b.add(UnsortedSegmentSum(), looked_up, b.input("rows", "int64", "N"), np.int32(3))
    feed = {"ids": torch.tensor([4, 0, 4, 1]), "rows": torch.tensor(at)}
    log = check_passes(b.done(y=y), (PoolSegments(),), [feed])
    assert not pooled(log) and any("sorted" in e.reason for e in log.rejected())
