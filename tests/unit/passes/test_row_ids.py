"""`row-ids`: counted row numbers of tokens are those row numbers again; others by a hair stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.ir.column_value import ColumnValue
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.concat import Concat
from colonnade.ops.graph.cumsum import Cumsum
from colonnade.ops.graph.dense_bincount import DenseBincount
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.minimum import Minimum
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.passes.base import Log
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes

COLUMN = StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2)
ITEM = StridedSlice(shrink_axis_mask=1)
NONE = np.zeros(0, np.int64)


def texts(*values: bytes) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


FEEDS = [{"x": texts(b"a,b", b"", b"c,,a", b""), "y": texts(b"a", b"b", b"a", b"a")}, {"x": texts(), "y": texts()}]


class Words:
    """A builder, tokens of an input, and rows by splits that count them."""

    def __init__(self, skip_empty: bool = True) -> None:
        self.b = Builder()
        self.x, self.y = (self.b.input(key, "string", "B") for key in "xy")
        self.split = self.b.add(StringSplit(b",", skip_empty), self.x)
        self.values = self.b.add(StringToHashBucket(4), self.b.item(self.split, 1))

    def rows(self, split: Any = None, place: int = 0) -> Any:
        return self.b.add(COLUMN, self.b.item(split or self.split, 0), [0, place], [0, place + 1], [1, 1])

    def count(self, x: Any = None) -> Any:
        return self.b.add(ITEM, self.b.add(Shape("int64"), x or self.x), [0], [1], [1])

    def splits(self, rows: Any, size: Any, first: int = 0, weights: Any = NONE, **scan: bool) -> Any:
        counts = self.b.add(DenseBincount(), rows, size, weights)
        sums = self.b.add(Cumsum(**scan), counts, np.int32(0))
        return self.b.add(Concat(), np.array([first]), sums, np.int32(0))

    def pooled(self, splits: Any) -> Any:
        made = self.b.add(RaggedInput("splits"), splits, self.values)
        rows = self.b.add(COLUMN, self.b.item(made, 0), [0, 0], [0, 1], [1, 1])
        count = self.b.add(Gather(), self.b.item(made, 2), np.int32(0), np.int32(0))
        return self.b.add(EmbeddingBag("sum"), self.b.table("t", 4, 3), self.b.item(made, 1), rows, count)


def said(log: Log, applied: bool) -> list[str]:
    return [e.reason for e in log.events if e.pass_name == "row-ids" and e.applied == applied]


def columns(graph: Any) -> int:
    return sum(isinstance(n.target, ColumnValue) for n in graph.nodes())


@pytest.mark.parametrize("skip_empty", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
def test_counted_rows_are_the_rows(skip_empty: bool, bounded: bool) -> None:
    w = Words(skip_empty)
    size = w.count()
    if bounded:
        size = w.b.add(Minimum(), size, w.b.add(Maximum(), size, np.array(3)))
    graph = w.b.done(y=w.pooled(w.splits(w.rows(), size)))
    assert len(said(check_passes(graph, COLUMNS, FEEDS), True)) == 1 and columns(graph) == 1


def test_a_number_that_is_not_that_of_the_strings() -> None:
    w = Words()
    more = w.b.add(Maximum(), w.count(), np.array(3))
    graph = w.b.done(y=w.pooled(w.splits(w.rows(), more)))
    log = check_passes(graph, COLUMNS, FEEDS)
    assert "for all strings" in said(log, False)[0] and not columns(graph)


def test_places_are_no_row_numbers() -> None:
    w = Words()
    graph = w.b.done(y=w.pooled(w.splits(w.rows(place=1), w.count())))
    log = check_passes(graph, COLUMNS, FEEDS[:1])
    assert "row numbers of tokens" in said(log, False)[0] and not columns(graph)


def test_values_of_another_splitting() -> None:
    w = Words()
    other = w.b.add(StringSplit(b",", True), w.y)
    graph = w.b.done(y=w.pooled(w.splits(w.rows(other), w.count())))
    log = check_passes(graph, COLUMNS, [{"x": FEEDS[0]["x"], "y": FEEDS[0]["x"]}])
    assert "as many as tokens" in said(log, False)[0] and not columns(graph)


def test_counts_that_are_not_plain_are_left_alone() -> None:
    w = Words()
    ones = w.b.add(Cast("int64"), w.rows())
    graph = w.b.done(y=w.splits(w.rows(), w.count(), weights=ones), z=w.splits(w.rows(), w.count(), reverse=True))
    log = check_passes(graph, COLUMNS, FEEDS[:1])
    assert not said(log, True)
