"""Crosses of several values a row are columns over choices; graphs in which they are by a hair not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.reference import ReferenceBackend
from colonnade.executable import Executable
from colonnade.ir.check_program import broken, check
from colonnade.ir.graph import Node
from colonnade.ir.interpret import interpret
from colonnade.ir.text import parse_program, print_program
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_lower import StringLower
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.where import Where
from colonnade.passes.assemble import assemble
from colonnade.passes.extract_columns import ExtractColumns
from colonnade.testing.graphs import Builder, check_passes

WORDS = (b"", b"a", b"bc", b"\xff" * 40)
Sparse = tuple[Node, Node, Node]


def present(b: Builder, x: Node, missing: Any) -> Sparse:
    places = b.add(Where(), b.add(Compare("ne"), x, missing))
    return places, b.add(GatherNd(), x, places), b.add(Shape("int64"), x)


def crossed(b: Builder, sparse: list[Sparse], dense: list[Node]) -> Any:
    parts = [p[k] for k in range(3) for p in sparse]
    cross = b.add(SparseCross(997, 0xDECAFCAFFE, len(sparse)), *parts, *dense)
    rows = b.add(StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2), b.item(cross, 0), [0, 0], [0, 1], [1, 1])
    count = b.add(Gather(), b.item(cross, 2), 0, 0)
    return b.done(y=b.add(EmbeddingBag("mean"), b.table("t", 997, 3), b.item(cross, 1), rows, count))


def strings(*shape: int, seed: int = 0) -> Any:
    made = np.empty(int(np.prod(shape)), object)
    made[:] = [WORDS[k] for k in np.random.default_rng(seed).integers(len(WORDS), size=made.size)]
    return made.reshape(shape)


def reasons(graph: Any) -> list[str]:
    return [e.reason for e in check_passes(graph, [ExtractColumns()], []).rejected()]


@given(st.lists(st.integers(1, 3), min_size=2, max_size=3), st.integers(0, 5), st.integers(0, 999))
def test_every_choice_in_order(widths: list[int], rows: int, seed: int) -> None:
    b = Builder()
    keys = [f"x{k}" for k in range(len(widths))]
    shaped = zip(keys, widths, strict=True)
    sparse = [present(b, b.input(key, "string", "B", w), np.array(b"", object)) for key, w in shaped]
    graph = crossed(b, sparse, [b.input("n", "int64", "B", 2)])
    feed = {key: strings(rows, w, seed=seed + k) for k, (key, w) in enumerate(zip(keys, widths, strict=True))}
    numbers = np.random.default_rng(seed).integers(-9, 9, (rows, 2))
    whole = {**feed, "n": torch.from_numpy(numbers)}
    assert list(check_passes(graph, [ExtractColumns()], [whole]).applied())
    program, weights = assemble(graph)
    check(program)
    got = Executable(program, weights, ReferenceBackend())({**feed, "n": numbers})["y"]
    np.testing.assert_array_equal(got, np.asarray(interpret(graph, whole)["y"]))


@pytest.mark.parametrize("rows", ["B", "C"])
def test_features_of_the_same_rows(rows: str) -> None:
    """Rows that the op requires to be equal are made one; what it cannot is no cross of the same rows."""
    b = Builder()
    graph = crossed(b, [], [b.input("x", "int64", "B", 2), b.input("y", "int64", rows, 2)])
    assert not reasons(graph)


def test_a_feature_of_two_inputs() -> None:
    b = Builder()
    x = b.add(Add(), b.input("x", "int64", "B", 2), b.input("z", "int64", "B", 2))
    assert reasons(crossed(b, [], [x, b.input("y", "int64", "B", 2)]))


def test_a_feature_that_is_computed() -> None:
    b = Builder()
    x = b.input("x", "int64", "B", 2)
    assert reasons(crossed(b, [], [b.add(Mul(), x, x), b.input("y", "int64", "B", 2)]))


def test_a_feature_that_counts_places() -> None:
    b = Builder()
    x = b.add(Cast("int64"), b.input("x", "int32", "B", 2))
    placed = b.add(Add(), x, np.array([[0, 5]], np.int64))
    assert reasons(crossed(b, [], [placed, b.input("y", "int64", "B", 2)]))


def tokens(b: Builder, x: Node, by: bytes = b";") -> Sparse:
    split = b.add(StringSplit(by), x)
    return b.item(split, 0), b.item(split, 1), b.item(split, 2)


@pytest.mark.parametrize("twice", [False, True])
def test_tokens(twice: bool) -> None:
    b = Builder()
    x = b.input("x", "string", "B")
    parts = [tokens(b, x), tokens(b, x, b"--")] if twice else [tokens(b, x)]
    graph = crossed(b, parts, [b.input("n", "int64", "B", 2)])
    texts = np.empty(4, object)
    texts[:] = [b"a;b--;c", b"", b";--", b"x"]
    numbers = np.arange(8).reshape(4, 2)
    whole = {"x": texts, "n": torch.from_numpy(numbers)}
    empty = {"x": texts[:0], "n": whole["n"][:0]}
    assert list(check_passes(graph, [ExtractColumns()], [whole, empty]).applied())
    program, weights = assemble(graph)
    check(program)
    assert parse_program(print_program(program), weights.consts) == program
    got = Executable(program, weights, ReferenceBackend())({"x": texts, "n": numbers})["y"]
    np.testing.assert_array_equal(got, np.asarray(interpret(graph, whole)["y"]))


def test_tokens_of_one_string_a_row() -> None:
    b = Builder()
    x = b.add(Reshape(), b.input("x", "string", "B", 2), np.array([-1]))
    assert reasons(crossed(b, [tokens(b, x)], [b.input("y", "int64", "B", 2)]))


def test_tokens_of_strings_that_are_made() -> None:
    b = Builder()
    x = b.add(StringLower(), b.input("x", "string", "B"))
    found = reasons(crossed(b, [tokens(b, x)], [b.input("y", "int64", "B", 2)]))
    assert found == ["a feature of a cross is made of what is no input"]


def test_separators_that_fit_no_field() -> None:
    b = Builder()
    graph = crossed(b, [tokens(b, b.input("x", "string", "B"))], [b.input("n", "int64", "B", 2)])
    check_passes(graph, [ExtractColumns()], [])
    program, _ = assemble(graph)
    wrong = tuple(replace(i, splits=(b"", b";")) if i.among else i for i in program.inputs)
    assert any("is split, which is not one string a row" in what for _, what in broken(replace(program, inputs=wrong)))


def test_a_name_that_is_taken() -> None:
    b = Builder()
    b.input("x*y.offsets", "int64", "B", 2)
    graph = crossed(b, [], [b.input("x", "int64", "B", 2), b.input("y", "int64", "B", 2)])
    assert reasons(graph) == ["an input has the name of choices among x, y"]
