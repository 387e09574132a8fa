"""Sums over the places of looked up rows are pooled, or stay, for the right reason; the answer stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.ir.column import Column
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.mean import Mean
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sum import Sum
from colonnade.passes.base import Log
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes

IDS = torch.tensor([[0, 3], [0, 0], [2, 0]])
NONE = IDS[:0]


def reasons(log: Log) -> list[str]:
    return [e.reason for e in log.rejected() if e.pass_name == "pool-places"]


def pooled(graph: Graph) -> list[Column]:
    columns = [n.target.column for n in graph.nodes() if isinstance(n.target, ColumnValue)]
    return [c for c in columns if c.pooling != "none"]


def rows(b: Builder, ids: Any) -> Any:
    return b.add(Gather(), b.table("t", 4, 3), ids, 0)


def masked(b: Builder, ids: Any, mask: Any, other: float = 0.0) -> Any:
    return b.add(Select(), b.add(ExpandDims(), mask, 2), rows(b, ids), np.float32(other))


def differs(b: Builder, x: Any, value: int = 0, kind: str = "ne") -> Any:
    return b.add(Compare(kind), x, np.array(value))


@pytest.mark.parametrize(("op", "axis"), [(Sum(), 1), (Sum(), -2), (Mean(), 1)])
def test_a_sum_over_places_is_pooled(op: Any, axis: int) -> None:
    b = Builder()
    graph = b.done(y=b.add(op, rows(b, b.input("x", "int64", "B", 2)), [axis]))
    check_passes(graph, COLUMNS, [{"x": IDS}, {"x": NONE}])  # two rows: the order of their sum does not matter
    (column,) = pooled(graph)
    assert column.pooling == op.name and not column.filters


@pytest.mark.parametrize(("op", "axis"), [(Sum(), 2), (Sum(), 0), (Sum(keep_dims=True), 1)])
def test_a_sum_over_something_else_is_not(op: Any, axis: int) -> None:
    b = Builder()
    graph = b.done(y=b.add(op, rows(b, b.input("x", "int64", "B", 2)), [axis]))
    check_passes(graph, COLUMNS, [{"x": IDS}])
    assert not pooled(graph)


def test_no_known_number_of_places() -> None:
    b = Builder()
    graph = b.done(y=b.add(Mean(), rows(b, b.input("x", "int64", "B", "T")), [1]))
    log = check_passes(graph, COLUMNS, [{"x": IDS}, {"x": IDS[:, :0]}])
    assert [c.name for c in pooled(graph)] == ["x.elements"] and reasons(log)  # each element is a row of its own


def test_what_a_mask_drops_is_filtered_and_counted() -> None:
    b = Builder()
    x = b.input("x", "int64", "B", 2)
    mask = differs(b, x)
    count = b.add(Sum(), b.add(Cast("float32"), b.add(ExpandDims(), mask, 2)), [1])
    graph = b.done(y=b.add(Sum(), masked(b, x, mask), [1]), count=count)
    check_passes(graph, COLUMNS, [{"x": IDS}, {"x": NONE}])
    assert [len(c.filters) for c in pooled(graph)] == [1, 1]


def test_what_a_mask_drops_may_be_outside() -> None:
    for value, kind, reason in ((4, "ne", "not proven to be in the table"), (0, "ge", "not proven to be in the table")):
        b = Builder()
        x = b.input("x", "int64", "B", 2)
        graph = b.done(y=b.add(Sum(), masked(b, x, differs(b, x, value, kind)), [1]))
        log = check_passes(graph, COLUMNS, [{"x": IDS}])
        assert reason in reasons(log)[0] and not pooled(graph)


def test_a_mask_may_drop_what_is_proven_to_be_inside() -> None:
    b = Builder()
    x = b.input("x", "float32", "B", 2)
    ids = b.add(Bucketize(Const(np.array([0, 1, 2], np.float32))), x)
    graph = b.done(y=b.add(Sum(), masked(b, ids, b.add(Compare("ge"), ids, 2)), [1]))
    check_passes(graph, COLUMNS, [{"x": torch.tensor([[-1.0, 5.0], [1.5, float("nan")]])}])
    assert len(pooled(graph)) == 1


def test_a_mask_of_another_field() -> None:
    b = Builder()
    x, z = b.input("x", "int64", "B", 2), b.input("z", "int64", "B", 2)
    graph = b.done(y=b.add(Sum(), masked(b, x, differs(b, z)), [1]))
    log = check_passes(graph, COLUMNS, [{"x": IDS, "z": IDS}])
    assert "not proven to be in the table" in reasons(log)[0] and not pooled(graph)


@pytest.mark.parametrize("other", [1.0, float("nan")])
def test_what_is_put_in_the_place_of_rows_counts(other: float) -> None:
    b = Builder()
    x = b.input("x", "int64", "B", 2)
    graph = b.done(y=b.add(Sum(), masked(b, x, differs(b, x), other), [1]))
    check_passes(graph, COLUMNS, [{"x": IDS}])
    assert not pooled(graph)


def test_the_mean_of_what_a_mask_keeps_counts_the_rest() -> None:
    b = Builder()
    x = b.input("x", "int64", "B", 2)
    graph = b.done(y=b.add(Mean(), masked(b, x, differs(b, x)), [1]))
    check_passes(graph, COLUMNS, [{"x": IDS}])
    assert not pooled(graph)
