"""Crosses of several values a row are columns over choices; graphs in which they are by a hair not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.backends.cpu import CpuBackend
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
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_lower import StringLower
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.where import Where
from colonnade.passes.assemble import assemble
from colonnade.passes.chosen import chosen_name
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


def placed(b: Builder, name: str, width: int, *, by_row: bool = False) -> Node:
    """Ids of which each place has its own; or each row, where there are as many as places."""
    given = b.input(name, "int32", width if by_row else "B", width)
    count = b.add(Gather(), b.add(Shape("int32"), given), 0, 0)
    numbers = b.add(Range(), 0, width, 1)
    if by_row:
        numbers = b.add(Reshape(), b.add(Tile(), b.add(ExpandDims(), numbers, 1), [1, width]), [-1])
    else:
        numbers = b.add(Tile(), numbers, b.add(Reshape(), count, [1]))
    moves = b.add(Mul(), b.add(Cast("int64"), numbers), np.array(5))
    ids = b.add(Add(), b.add(Reshape(), b.add(Cast("int64"), given), [-1]), moves)
    return b.add(Reshape(), ids, [-1, width])


@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), st.integers(0, 5), st.integers(0, 999))
def test_features_that_count_places(widths: list[int], rows: int, seed: int) -> None:
    b = Builder()
    keys = [f"x{k}" for k in range(len(widths))]
    graph = crossed(b, [], [placed(b, key, w) for key, w in zip(keys, widths, strict=True)])
    rng = np.random.default_rng(seed)
    feed = {key: rng.integers(-9, 9, (rows, w)).astype(np.int32) for key, w in zip(keys, widths, strict=True)}
    whole = {key: torch.from_numpy(x) for key, x in feed.items()}
    assert list(check_passes(graph, [ExtractColumns()], [whole]).applied())
    program, weights = assemble(graph)
    check(program)
    assert parse_program(print_program(program), weights.consts) == program
    want = np.asarray(interpret(graph, whole)["y"])
    for made in (ReferenceBackend(), CpuBackend()):
        np.testing.assert_array_equal(Executable(program, weights, made)(feed)["y"], want)


def test_places_of_what_is_left_of_a_row() -> None:
    """What a mask keeps has the places that it had among all."""
    b = Builder()
    moved = placed(b, "x", 2)
    kept = b.add(Where(), b.add(Compare("ne"), b.graph.inputs["x"], np.array(-1, np.int32)))
    sparse = (kept, b.add(GatherNd(), moved, kept), b.add(Shape("int64"), b.graph.inputs["x"]))
    graph = crossed(b, [sparse], [placed(b, "y", 3)])
    feed = {"x": np.array([[1, -1], [-1, 3], [-1, -1], [1, 1]]), "y": np.arange(12).reshape(4, 3)}
    feed = {key: x.astype(np.int32) for key, x in feed.items()}
    whole = {key: torch.from_numpy(x) for key, x in feed.items()}
    assert list(check_passes(graph, [ExtractColumns()], [whole]).applied())
    program, weights = assemble(graph)
    for made in (ReferenceBackend(), CpuBackend()):
        got = Executable(program, weights, made)(feed)["y"]
        np.testing.assert_array_equal(got, np.asarray(interpret(graph, whole)["y"]))


@pytest.mark.parametrize("by_row", [False, True])
def test_numbers_of_rows_are_no_places(by_row: bool) -> None:
    """By a hair: 0 0 1 1 instead of 0 1 0 1."""
    b = Builder()
    graph = crossed(b, [], [placed(b, "x", 2, by_row=by_row), b.input("y", "int64", 2 if by_row else "B", 2)])
    assert bool(reasons(graph)) == by_row


def test_a_place_that_is_no_int64() -> None:
    b = Builder()
    graph = crossed(b, [], [placed(b, "x", 2), placed(b, "y", 3)])
    check_passes(graph, [ExtractColumns()], [])
    program, _ = assemble(graph)
    wrong = tuple(replace(i, dtype="int32") if i.numbered else i for i in program.inputs)
    assert any("places are int64" in what for _, what in broken(replace(program, inputs=wrong)))


@pytest.mark.parametrize("names", [("a*b", "c", "a", "b*c"), ("a[;]", "b", "a", "b"), ("a\\", "*b", "a", "\\*b")])
def test_names_of_choices_do_not_collide(names: tuple[str, ...]) -> None:
    b = Builder()
    bags = []
    inputs = {name: b.input(name, "string", "B") for name in dict.fromkeys(names)}
    for k, pair in enumerate((names[:2], names[2:])):
        parts = [p for name in pair for p in tokens(b, inputs[name])]
        cross = b.add(SparseCross(997, k, 2), *parts[0::3], *parts[1::3], *parts[2::3])
        taken = [0, 0], [0, 1], [1, 1]
        rows = b.add(StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2), b.item(cross, 0), *taken)
        count = b.add(Gather(), b.item(cross, 2), 0, 0)
        bags.append(b.add(EmbeddingBag("mean"), b.table(f"t{k}", 997, 3), b.item(cross, 1), rows, count))
    graph = b.done(y=bags[0], z=bags[1])
    feed = {name: strings(5, seed=k) for k, name in enumerate(inputs)}
    assert not list(check_passes(graph, [ExtractColumns()], [feed]).rejected())
    program, weights = assemble(graph)
    check(program)
    made = [i.name for i in program.inputs if i.among]
    assert len(made) == len(set(made)) == 6
    assert parse_program(print_program(program), weights.consts) == program
    got, want = Executable(program, weights, ReferenceBackend())(feed), interpret(graph, feed)
    for key, x in got.items():
        np.testing.assert_array_equal(x, np.asarray(want[key]))


@pytest.mark.parametrize("splits", [(), (b";", b"")])
def test_every_name_of_choices_is_one_of_its_own(splits: tuple[bytes, ...]) -> None:
    parts = ["a", "*", "[", "]", "\\", ".", "0", ";"]
    words = ["".join(p) for n in (1, 2) for p in itertools.product(parts, repeat=n)]
    pairs = list(itertools.product(words[:40], words[:40]))
    assert len({chosen_name(pair, splits, 0) for pair in pairs}) == len(pairs)
    assert chosen_name(("a",), (b";",), 0) != chosen_name(("a[;]",), (), 0)
    assert chosen_name(("a",), (b"]",), 0) != chosen_name(("a",), (b"\\]",), 0)


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
