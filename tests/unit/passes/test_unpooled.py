"""Lookups that are not pooled: a vector for each element, in rows of a fixed width or of an open one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from colonnade import load
from colonnade.backends.cpu.backend import CpuBackend
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.errors import FeedError, IdRangeError
from colonnade.executable import Executable
from colonnade.ir.check_program import broken, check
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ir.program import Output, Ref
from colonnade.ir.text import parse_program, print_program
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.floor_div import FloorDiv
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.size import Size
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.passes.assemble import assemble
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes


def count(graph: Graph, op: type) -> int:
    return sum(isinstance(node.target, op) for node in graph.nodes())


@pytest.mark.parametrize("width", [(2,), (3, 2), (0,)])
def test_a_gather_of_several_vectors_a_row_is_a_column_without_a_pooling(width: tuple[int, ...]) -> None:
    b = Builder()
    x = b.input("x", "int64", "B", *width)
    found = b.add(Gather(), b.table("t", 9, 3), x, 0)
    joined = b.add(Reshape(), found, [-1, 3 * int(np.prod(width))]) if all(width) else found
    graph = b.done(joined=joined, whole=found)
    feed = torch.tensor([4, 0, 8, 1, 5, 5] * 3)[: 3 * int(np.prod(width))].reshape(3, *width)
    check_passes(graph, COLUMNS, [{"x": feed}, {"x": feed[:1]}])
    assert count(graph, ColumnValue) == all(width)
    if all(width):
        value = graph.outputs["joined"].target
        assert isinstance(value, ColumnValue) and value.column.pooling == "none"


@pytest.mark.parametrize("shape", [(1, "B"), ("B", "T"), ("B", "T", 2), ("A", "B", "C")])
def test_a_gather_of_open_width_is_a_column_of_single_elements(shape: tuple[int | str, ...]) -> None:
    b = Builder()
    x = b.input("x", "int64", *shape)
    graph = b.done(y=b.add(Gather(), b.table("t", 9, 3), x, 0), flat=b.add(Gather(), b.table("u", 9, 2), x, 0))
    feeds = [torch.tensor([[4, 0]]), torch.zeros(1, 0, dtype=torch.int64)]
    if len(shape) == 3:
        feeds = [torch.tensor([[[4, 0], [8, 8]]]), torch.zeros(1, 0, 2, dtype=torch.int64)]
    check_passes(graph, COLUMNS, [{"x": feed} for feed in feeds])
    assert count(graph, ColumnValue) == 2
    program, _ = assemble(graph)
    check(program)
    assert parse_program(print_program(program), {}) == program
    assert [(i.name, i.of) for i in program.inputs] == [("x", None), ("x.elements", "x")]
    assert [i.name for i in program.signature] == ["x"]


def test_an_input_that_has_the_name_of_anothers_elements() -> None:
    b = Builder()
    ids = [b.input(name, "int64", "B", "T") for name in ("x", "x.elements")]
    graph = b.done(**{f"y{k}": b.add(Gather(), b.table("t", 9, 3), x, 0) for k, x in enumerate(ids)})
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([[4, 0]]), "x.elements": torch.tensor([[1, 2]])}])
    assert count(graph, ColumnValue) == 1
    assert [e.reason for e in log.rejected()] == ["an input has the name 'x.elements' of the elements of 'x'"]


@pytest.mark.parametrize("order", list(itertools.permutations(("x", "x", "x#2", "x#2"))))
def test_a_number_behind_a_columns_name_makes_no_other_columns_name(order: tuple[str, ...]) -> None:
    b = Builder()
    ids = {name: b.input(name, "int64", "B") for name in ("x", "x#2")}
    tables = [b.table(f"t{k}", 9, 3, seed=k) for k in range(len(order))]
    found = [b.add(Gather(), table, ids[name], 0) for table, name in zip(tables, order, strict=True)]
    graph = b.done(**{f"y{k}": x for k, x in enumerate(found)})
    check_passes(graph, COLUMNS, [{name: torch.tensor([4, 0]) for name in ids}])
    program, _ = assemble(graph)
    check(program)
    names = [column.name for column in program.columns]
    assert len(set(names)) == len(names) == 4 and {"x", "x#2"} <= set(names)
    assert parse_program(print_program(program), {}) == program


def test_ids_of_open_width_whose_rows_are_not_proven_are_not_pooled() -> None:
    b = Builder()
    x = b.input("x", "int64", "B", "T")
    rows = b.add(
        FloorDiv(),
        b.add(Range(), 0, b.add(Size(), x), 1),
        b.add(StridedSlice(shrink_axis_mask=1), b.add(Shape(), x), [1], [2], [1]),
    )
    flat = b.add(Reshape(), x, [-1])
    num_rows = b.add(StridedSlice(shrink_axis_mask=1), b.add(Shape(), x), [0], [1], [1])
    graph = b.done(y=b.add(EmbeddingBag("sum", None), b.table("t", 9, 3), flat, rows, num_rows))
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([[4, 0]])}])
    assert count(graph, ColumnValue) == 0
    assert any("not proven to be i // T" in e.reason for e in log.rejected())


def model(target: Any = None, **options: Any) -> Executable:
    """Vectors of two inputs of one open shape."""
    b = Builder()
    x, y = (b.input(name, "int64", "B", "T") for name in "xy")
    one, other = (
        b.add(Gather(), b.table(name, 9, 3, seed), i, 0) for seed, (name, i) in enumerate([("t", x), ("u", y)])
    )
    graph = b.done(sum=b.add(Add(), one, other), one=one)
    check_passes(graph, COLUMNS, [])
    return Executable(*assemble(graph), target or CpuBackend(), **options)


FEEDS = {
    "arrays": lambda x, y: {"x": x, "y": y},
    "strided": lambda x, y: {"x": np.asfortranarray(x), "y": np.repeat(y, 2, axis=1)[:, ::2]},
    "tensors": lambda x, y: {"x": torch.from_numpy(x), "y": torch.from_numpy(y)},
    "lists": lambda x, y: {"x": x.tolist(), "y": y},
    "batch": lambda x, y: pa.record_batch(
        {k: pa.FixedSizeListArray.from_arrays(v.reshape(-1), 4) for k, v in [("x", x), ("y", y)]}
    ),
}


@pytest.mark.parametrize("form", FEEDS)
@pytest.mark.parametrize("target", [ReferenceBackend(), CpuBackend(), GpuBackend(interpret=True)], ids=lambda b: b.name)
def test_requests_of_open_width(target: Any, form: str) -> None:
    executable = model(target)
    x, y = np.random.default_rng(0).integers(0, 9, (2, 5, 4))
    tables = executable.weights.tables
    got = executable(FEEDS[form](x, y))
    assert np.array_equal(got["one"], tables["t"][x]) and np.array_equal(got["sum"], tables["t"][x] + tables["u"][y])
    for shape in ((0, 4), (3, 0), (1, 1)):
        empty = np.zeros(shape, np.int64)
        assert executable({"x": empty, "y": empty})["one"].shape == (*shape, 3)


@pytest.mark.parametrize(
    ("feed", "problem"),
    [
        ({"x": np.zeros((2, 3), np.int64), "y": np.zeros((2, 4), np.int64)}, "want"),
        ({"x": np.zeros((2, 3), np.int64), "y": np.zeros((3, 2), np.int64)}, "want"),
        ({"x": np.zeros((2, 3), np.int64), "y": np.zeros(6, np.int64)}, "y: has the shape [6]"),
        ({"x": np.zeros((2, 3), np.int64), "y": np.zeros((2, 3), np.int32)}, "y: is int32, want int64"),
        ({"x": np.zeros((2, 3), np.int64), "x.elements": np.zeros(6, np.int64)}, "x.elements: unexpected"),
        ({"x": np.zeros((2, 3), np.int64)}, "y: missing"),
    ],
)
def test_requests_that_do_not_fit(feed: Any, problem: str) -> None:
    with pytest.raises(FeedError) as caught:
        model()(feed)
    assert problem in caught.value.got


@pytest.mark.parametrize("target", [ReferenceBackend(), CpuBackend(), GpuBackend(interpret=True)], ids=lambda b: b.name)
def test_an_id_outside_names_the_elements(target: Any) -> None:
    x = np.zeros((2, 3), np.int64)
    x[1, 0] = 9
    with pytest.raises(IdRangeError) as caught:
        model(target)({"x": x, "y": x * 0})
    assert "x.elements" in str(caught.value) and "id 9" in str(caught.value) and "row 3" in str(caught.value)
    zeroed = model(target, id_policy="zero")
    assert not zeroed({"x": x, "y": x * 0})["one"][1, 0].any()


def test_an_artifact_keeps_what_elements_are_of(tmp_path: Path) -> None:
    executable = model()
    executable.save(tmp_path / "a")
    feed = {"x": np.arange(6).reshape(2, 3), "y": np.arange(6).reshape(2, 3)}
    assert load(tmp_path / "a")(feed)["sum"].tobytes() == executable(feed)["sum"].tobytes()


def test_the_rules_of_elements() -> None:
    program = model().program
    x = program.input("x.elements")
    for bad, problem in [
        (replace(x, of="z"), "the elements of 'z', which is no input"),
        (replace(x, of="y.elements"), "the elements of 'y.elements', which is no input"),
        (replace(x, dtype="int32"), "it is int32[B*T], the elements of 'x' are int64[B*T]"),
        (replace(x, shape=program.input("x").shape[:1]), "it is int64[B], the elements"),
        (replace(x, offsets="y"), "single elements have no offsets"),
    ]:
        changed = replace(program, inputs=tuple(bad if i is x else i for i in program.inputs))
        assert any(problem in what for _, what in broken(changed)), (problem, list(broken(changed)))
    read = replace(program, outputs=(*program.outputs, Output("z", Ref("x.elements"), "int64", x.shape)))
    assert any("the dense rest reads 'x'" in what for _, what in broken(read))
