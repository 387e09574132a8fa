"""Rows that are scaled to a norm: what is a scaled table, and graphs that are by a hair not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.ir.interpret import interpret
from colonnade.ops.graph.clip_rows import ClipRows
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.maximum import Maximum
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.ones_like import OnesLike
from colonnade.ops.graph.real_div import RealDiv
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.sum import Sum
from colonnade.passes.base import run
from colonnade.passes.clip_tables import ClipTables
from colonnade.passes.extract_columns import ExtractColumns
from colonnade.testing.graphs import Builder, check_passes


def clipped(
    b: Builder, x: Any, bound: float = 0.5, *, factor: float | None = None, axis: int = -1, above: float = 0.0
) -> Any:
    """As TensorFlow writes it."""
    total = b.add(Sum(keep_dims=True), b.add(Mul(), x, x), [axis])
    positive = b.add(Compare("gt"), total, np.float32(above))
    safe = b.add(Select(v1=True), positive, total, b.add(OnesLike(), total))
    norm = b.add(Select(v1=True), positive, b.add(Sqrt(), safe), total)
    scaled = b.add(Mul(), x, np.float32(bound if factor is None else factor))
    return b.add(RealDiv(), scaled, b.add(Maximum(), norm, np.float32(bound)))


def applied(graph: Any, feeds: list[Any] | None = None) -> bool:
    log = check_passes(graph, [ClipTables()], feeds or [])
    return bool(list(log.applied()))


IDS = [{"ids": torch.tensor([0, 4, 4, 2])}, {"ids": torch.tensor([], dtype=torch.int64)}]


@given(st.integers(1, 70), st.sampled_from([0.5, 1.0, 1e-3, 7.0]), st.integers(0, 99))
def test_each_row_is_scaled_by_itself(width: int, bound: float, seed: int) -> None:
    b = Builder()
    rows = b.add(Gather(), b.table("t", 5, width, seed), b.input("ids", "int64", "N"), 0)
    assert applied(b.done(y=clipped(b, rows, float(np.float32(bound)))), IDS)


def test_several_ids_a_row_and_a_constant_table() -> None:
    b = Builder()
    table = b.constant(np.arange(15, dtype=np.float32).reshape(5, 3))
    rows = b.add(Gather(), table, b.input("ids", "int64", "B", 2), 0)
    assert applied(b.done(y=clipped(b, rows, axis=2)), [{"ids": torch.tensor([[0, 4], [1, 1]])}])


@pytest.mark.parametrize("wrong", [{"factor": 0.25}, {"axis": 0}, {"bound": -1.0}, {"bound": 0.0}, {"above": 0.5}])
def test_by_a_hair(wrong: dict[str, Any]) -> None:
    b = Builder()
    rows = b.add(Gather(), b.table("t", 5, 3), b.input("ids", "int64", "N"), 0)
    assert not applied(b.done(y=clipped(b, rows, **wrong)), IDS[:1])


def test_the_norm_of_other_rows() -> None:
    b = Builder()
    table, ids = b.table("t", 5, 3), b.input("ids", "int64", "N")
    rows, others = b.add(Gather(), table, ids, 0), b.add(Gather(), table, b.input("more", "int64", "N"), 0)
    total = b.add(Sum(keep_dims=True), b.add(Mul(), rows, others), [-1])
    positive = b.add(Compare("gt"), total, np.float32(0))
    norm = b.add(Select(v1=True), positive, b.add(Sqrt(), total), total)
    y = b.add(RealDiv(), b.add(Mul(), rows, np.float32(0.5)), b.add(Maximum(), norm, np.float32(0.5)))
    assert not applied(b.done(y=y))


def test_columns_of_a_table_are_not_its_rows() -> None:
    b = Builder()
    columns = b.add(Gather(), b.table("t", 5, 3), b.input("ids", "int64", "N"), 1)
    assert not applied(b.done(y=clipped(b, columns)), [{"ids": torch.tensor([0, 2])}])


def test_what_is_no_column_clips_what_it_looked_up() -> None:
    b = Builder()
    computed = b.add(Mul(), b.input("ids", "int64", "N"), b.input("more", "int64", "N"))
    graph = b.done(y=clipped(b, b.add(Gather(), b.table("t", 5, 3), computed, 0)))
    feed = {"ids": torch.tensor([2, 1]), "more": torch.tensor([2, 1])}
    before = interpret(graph, feed)["y"]
    run([ClipTables(), ExtractColumns()], graph)
    (clip,) = [n for n in graph.nodes() if isinstance(n.target, ClipRows)]
    assert isinstance(clip.args[0].target, Gather)
    assert torch.equal(torch.as_tensor(interpret(graph, feed)["y"]), torch.as_tensor(before))


def test_rows_of_odd_values() -> None:
    rows = np.array([[0, 0], [-0.0, 3], [np.nan, 1], [np.inf, 1], [1e-40, 1e-40], [1e30, 1e30]], np.float32)
    got = ClipRows(0.5).rows(rows)
    assert got[0].tobytes() == rows[0].tobytes() and got[1].tolist() == [-0.0, 0.5] and np.signbit(got[1, 0])
    assert np.isnan(got[2]).all() and np.isnan(got[3, 0]) and got[3, 1] == 0
    assert got[4].tolist() == [0, 0] and got[5].tolist() == [0, 0]
