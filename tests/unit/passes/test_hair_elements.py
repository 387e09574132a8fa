"""Ids that are a column's but for a hair: they are not extracted, for the right reason, and the answer stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.ir.column import Column
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.logical_or import LogicalOr
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.passes.base import Log
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes


def reasons(log: Log) -> list[str]:
    return [e.reason for e in log.rejected() if e.pass_name == "extract-columns"]


def columns(graph: Graph) -> list[Column]:
    return [n.target.column for n in graph.nodes() if isinstance(n.target, ColumnValue)]


def looked_up(b: Builder, ids: Any, rows: int = 4) -> Graph:
    """A gather of one row an id."""
    return b.done(y=b.add(Gather(), b.table("t", rows, 3), ids, 0))


IDS = torch.tensor([-7, -1, 0, 3, 4, 2**40, 2**63 - 1, -(2**63)])


# -- a default for ids outside an interval -----------------------------------------------------------------------------
def outside(b: Builder, x: Any, low: int, high: int, kinds: tuple[str, str] = ("lt", "ge")) -> Any:
    below, above = (
        b.add(Compare(k), x, np.array(bound, np.int64)) for k, bound in zip(kinds, (low, high), strict=True)
    )
    return b.add(LogicalOr(), below, above)


@pytest.mark.parametrize(("kinds", "low", "high"), [(("lt", "ge"), 0, 4), (("le", "gt"), -1, 3), (("ge", "lt"), 4, 0)])
def test_a_default_outside_the_table_proves_the_ids(kinds: tuple[str, str], low: int, high: int) -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    default = b.add(Fill(), b.add(Shape("int32"), x), np.array(2, np.int64))
    graph = looked_up(b, b.add(Select(), outside(b, x, low, high, kinds), default, x))
    check_passes(graph, COLUMNS, [{"x": IDS}, {"x": IDS[:0]}])
    (column,) = columns(graph)
    assert column.ids_proven


@pytest.mark.parametrize(("low", "high", "default"), [(0, 5, 2), (-1, 4, 2), (0, 4, 4), (0, 4, -1)])
def test_a_default_that_leaves_an_id_outside_proves_nothing(low: int, high: int, default: int) -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    graph = looked_up(b, b.add(Select(), outside(b, x, low, high), np.array(default, np.int64), x))
    check_passes(graph, COLUMNS, [{"x": torch.tensor([0, 3, 1])}])
    (column,) = columns(graph)
    assert not column.ids_proven


def test_a_condition_on_other_ids_replaces_nothing() -> None:
    b = Builder()
    x, z = b.input("x", "int64", "B"), b.input("z", "int64", "B")
    graph = looked_up(b, b.add(Select(), outside(b, z, 0, 4), np.array(2, np.int64), x))
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([0, 3]), "z": torch.tensor([9, 1])}])
    assert "not proven to be about the ids" in reasons(log)[0]


def test_two_halves_of_a_condition_must_be_about_the_same_ids() -> None:
    b = Builder()
    x, z = b.input("x", "int64", "B"), b.input("z", "int64", "B")
    either = b.add(
        LogicalOr(),
        b.add(Compare("lt"), x, np.array(0, np.int64)),
        b.add(Compare("ge"), z, np.array(4, np.int64)),
    )
    graph = looked_up(b, b.add(Select(), either, np.array(2, np.int64), x))
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([-1, 3]), "z": torch.tensor([9, 1])}])
    assert "different elements" in reasons(log)[0]


@pytest.mark.parametrize(
    ("kind", "other", "default", "reason"),
    [
        ("eq", np.array(-1, np.int64), np.array(2, np.int64), "compares by eq"),
        ("lt", np.array([0, 1, 0], np.int64), np.array(2, np.int64), "one integer"),
        ("lt", np.array(0, np.int64), np.array([2, 1, 0], np.int64), "something else than one integer"),
    ],
)
def test_a_select_that_is_no_default(kind: str, other: Any, default: Any, reason: str) -> None:
    b = Builder()
    x = b.input("x", "int64", "B", 3)
    graph = looked_up(b, b.add(Select(), b.add(Compare(kind), x, other), default, x))
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([[3, 2, 0], [2, 3, 3]])}])
    assert reason in reasons(log)[0]
