"""Places of a matrix's rows as fields of their own, and what is such a slice but for a hair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from colonnade.backends.feed import PackedFeed
from colonnade.backends.reference.backend import ReferenceBackend
from colonnade.executable import Executable
from colonnade.ir.check_program import broken
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ir.text import parse_program, print_program
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.split import Split
from colonnade.ops.graph.split_v import SplitV
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.unpack import Unpack
from colonnade.passes.assemble import assemble
from colonnade.passes.base import Log
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes

ROWS = [{"x": torch.tensor([[0, 1, 2], [3, 2, 1]])}, {"x": torch.zeros(0, 3, dtype=torch.int64)}]


def sliced(b: Builder, x: Any, begin: list[int], end: list[int], strides: list[int], **masks: int) -> Any:
    op = StridedSlice(**masks)
    return b.add(op, x, *(np.array(v, np.int32) for v in (begin, end, strides)))


def looked_up(b: Builder, ids: Any) -> Graph:
    return b.done(y=b.add(Gather(), b.table("t", 4, 2), ids, 0))


def fields(graph: Graph) -> list[tuple[str, ...]]:
    return [n.target.fields for n in graph.nodes() if isinstance(n.target, ColumnValue)]


def one(b: Builder, x: Any) -> Any:
    return sliced(b, x, [0, 1], [0, 2], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)


def two(b: Builder, x: Any) -> Any:
    return sliced(b, x, [0, 1], [0, 0], [1, 1], begin_mask=1, end_mask=3)


TAKEN: dict[str, tuple[Any, str]] = {
    "a place": (one, "x.1"),
    "the last place": (lambda b, x: sliced(b, x, [0, -1], [0, 0], [1, 1], begin_mask=1, end_mask=3), "x.2"),
    "two places": (two, "x.1-2"),
    "a place of a dim more": (
        lambda b, x: sliced(b, x, [0, 0, 1], [0, 0, 2], [1, 1, 1], begin_mask=3, end_mask=3, new_axis_mask=2),
        "x.1",
    ),
    "slice": (lambda b, x: b.add(Slice(), x, np.array([0, 1]), np.array([-1, 1])), "x.1"),
    "unpack": (lambda b, x: b.item(b.add(Unpack(3, 1), x), 2), "x.2"),
    "split": (lambda b, x: b.item(b.add(Split(3), 1, x), 1), "x.1"),
    "split_v": (lambda b, x: b.item(b.add(SplitV(2), x, np.array([1, 2]), -1), 1), "x.1-2"),
    "gather": (lambda b, x: b.add(Gather(), x, np.array([1, 2]), 1), "x.1-2"),
    "all places": (lambda b, x: b.add(Slice(), x, np.array([0, 0]), np.array([-1, 3])), "x"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_places_are_fields(name: str) -> None:
    b = Builder()
    take, field = TAKEN[name]
    graph = looked_up(b, take(b, b.input("x", "int64", "B", 3)))
    check_passes(graph, COLUMNS, ROWS)
    assert fields(graph) == [(field,)]


REFUSED: dict[str, tuple[Any, str]] = {
    "other rows": (lambda b, x: sliced(b, x, [1, 1], [0, 2], [1, 1], end_mask=1), "slice"),
    "turned rows": (
        lambda b, x: sliced(b, x, [0, 1], [0, 2], [-1, 1], begin_mask=1, end_mask=1),
        "slice",
    ),
    "every other place": (
        lambda b, x: sliced(b, x, [0, 0], [0, 3], [1, 2], begin_mask=1, end_mask=1),
        "slice",
    ),
    "places out of order": (lambda b, x: b.add(Gather(), x, np.array([2, 1]), 1), "not from a vector"),
    "a row": (lambda b, x: b.add(Gather(), x, np.array([0]), 0), "not from a vector"),
    "places of places": (lambda b, x: one(b, two(b, x)), "matrices of that shape"),
    "places that were counted": (
        lambda b, x: one(b, b.add(Add(), x, np.array([[0, 1, 1]]))),
        "",
    ),
    "a matrix that was another": (lambda b, x: one(b, b.add(Reshape(), x, np.array([-1, 3]))), "x"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_by_a_hair(name: str) -> None:
    b = Builder()
    make, reason = REFUSED[name]
    graph = looked_up(b, make(b, b.input("x", "int64", "B", 3)))
    log: Log = check_passes(graph, COLUMNS, [{"x": torch.tensor([[0, 1, 2], [3, 2, 1]])}])
    if name == "a matrix that was another":  # a reshape to the same shape is none
        assert fields(graph) == [("x.1",)]
        return
    assert not fields(graph)
    assert any(reason in e.reason for e in log.rejected() if e.pass_name == "extract-columns")


def test_a_name_that_is_taken() -> None:
    b = Builder()
    table = b.table("t", 4, 2)
    ids = one(b, b.input("x", "int64", "B", 3))
    graph = b.done(y=b.add(Gather(), table, ids, 0), z=b.add(Gather(), table, b.input("x.1", "int64", "B"), 0))
    log = check_passes(graph, COLUMNS, [{**ROWS[0], "x.1": torch.tensor([3, 0])}])
    assert fields(graph) == [("x.1",)]
    assert any("has the name 'x.1'" in e.reason for e in log.rejected())


# -- programs ----------------------------------------------------------------------------------------------------------
def program() -> Executable:
    b = Builder()
    x = b.input("x", "int64", "B", 3)
    table = b.table("t", 4, 2)
    graph = b.done(a=b.add(Gather(), table, one(b, x), 0), b=b.add(Gather(), table, two(b, x), 0))
    check_passes(graph, COLUMNS, ROWS)
    made, weights = assemble(graph)
    return Executable(made, weights, ReferenceBackend())


def test_the_text_says_which_places() -> None:
    made = program().program
    text = print_program(made)
    assert "input x.1: int64[B, 1] of x[1:2]" in text and "input x.1-2: int64[B, 2] of x[1:3]" in text
    assert parse_program(text, {}) == made and not list(broken(made))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("of x[1:2]", "of x[3:4]", "no places 3:4"),
        ("of x[1:2]", "of x[1:3]", "the places 1:3 of 'x' are"),
        ("of x[1:2]", "of y[1:2]", "no input of a request"),
        ("of x[1:2]", "of x.1-2[0:1]", "no input of a request"),
    ],
)
def test_wrong_places(old: str, new: str, problem: str) -> None:
    wrong = parse_program(print_program(program().program).replace(old, new), {})
    assert any(problem in str(found) for found in broken(wrong))


def test_every_form_of_a_request() -> None:
    executable = program()
    x = np.array([[0, 1, 2], [3, 2, 1], [1, 3, 3]])
    want = executable({"x": x})
    assert want["a"].shape == (3, 2) and want["b"].shape == (3, 2, 2)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 3)
    feeds = (
        *({"x": x.tolist()}, {"x": torch.from_numpy(x)}, {"x": x[:, ::-1].copy()[:, ::-1]}, {"x": lists}),
        *(pa.record_batch([lists], ["x"]), PackedFeed({"int64": x})),
    )
    for feed in feeds:
        got = executable(feed)
        assert all(np.array_equal(np.asarray(got[key]), want[key]) for key in want)
