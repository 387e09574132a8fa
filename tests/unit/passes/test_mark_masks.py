"""Comparisons that the dense rest reads become columns, where an element's own value decides them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.logical_and import LogicalAnd
from colonnade.ops.graph.vocabulary import Vocabulary
from colonnade.passes.mark_masks import EXACT, MarkMasks
from colonnade.testing.graphs import Builder, check_passes

WORDS = np.array([[b"a", b"", b"b"], [b"b", b"\xff", b""]], object)


def vocabulary(b: Builder, x: Any, *values: int) -> Any:
    keys = np.array([b"a", b"b"], object)[: len(values)]
    return b.add(Vocabulary(Const(keys), Const(np.array(values)), -1), x)


def marked(b: Builder, mask: Any, feeds: list[dict[str, Any]]) -> bool:
    graph = b.done(y=b.add(Cast("float32"), mask))
    return bool(list(check_passes(graph, [MarkMasks()], feeds).applied()))


@pytest.mark.parametrize("kind", ["eq", "ne"])
def test_words(kind: str) -> None:
    b = Builder()
    mask = b.add(Compare(kind), b.input("x", "string", "B", "T"), np.array(b"b", object))
    assert marked(b, mask, [{"x": WORDS}, {"x": WORDS[:0]}, {"x": WORDS[:, :0]}])


@pytest.mark.parametrize("kind", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("bound", [-1, 0, 5, 6])
def test_ids_of_words(kind: str, bound: int) -> None:
    b = Builder()
    ids = vocabulary(b, b.input("x", "string", "B", 3), 5, 0)
    assert marked(b, b.add(Compare(kind), ids, np.array(bound)), [{"x": WORDS}, {"x": WORDS[:0]}])


@pytest.mark.parametrize(
    ("bound", "kind", "exact"),
    [
        (EXACT, "ge", True),
        (EXACT, "lt", True),
        (EXACT, "gt", False),
        (-EXACT, "gt", True),
        (-EXACT, "ge", False),
        (-EXACT, "lt", False),
    ],
)
def test_a_bound_is_a_float(bound: int, kind: str, exact: bool) -> None:
    """By a hair: 2^24 + 1 is no float32, and -2^24 - 1 is rounded to -2^24."""
    b = Builder()
    sign = 1 if bound > 0 else -1
    ids = vocabulary(b, b.input("x", "string", "B", 3), sign * EXACT, sign * (EXACT + 1))
    assert marked(b, b.add(Compare(kind), ids, np.array(bound)), [{"x": WORDS}]) == exact


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_narrow_ids_stay(dtype: str) -> None:
    b = Builder()
    ids = b.add(Cast(dtype), vocabulary(b, b.input("x", "string", "B", 3), 5, 0))
    assert not marked(b, b.add(Compare("ge"), ids, np.array(3, dtype)), [{"x": WORDS}])


def test_a_constant_of_several_values() -> None:
    b = Builder()
    mask = b.add(Compare("ne"), b.input("x", "string", "B", 3), np.array([b"a", b"", b"a"], object))
    assert not marked(b, mask, [{"x": WORDS}])


def test_a_comparison_that_spreads_its_operand() -> None:
    b = Builder()
    x = b.input("x", "string", 1, 3)
    mask = b.add(Compare("ne"), x, np.full((2, 3), b"a", object))
    assert not marked(b, mask, [{"x": WORDS[:1]}])


def test_words_of_two_inputs() -> None:
    b = Builder()
    mask = b.add(Compare("eq"), b.input("x", "string", "B", 3), b.input("z", "string", "B", 3))
    assert not marked(b, mask, [{"x": WORDS, "z": WORDS[::-1]}])


def test_numbers_are_for_the_dense_rest() -> None:
    b = Builder()
    x = b.input("x", "int64", "B", 3)
    mask = b.add(LogicalAnd(), b.add(Compare("ge"), x, np.array(0)), b.add(Compare("ne"), x, np.array(3)))
    assert not marked(b, mask, [{"x": torch.tensor([[0, 3, -1]])}])


def test_names_of_columns_stay_apart() -> None:
    b = Builder()
    x = b.input("x", "string", "B", 3)
    both = [b.add(Compare("ne"), x, np.array(word, object)) for word in (b"a", b"b")]
    graph = b.done(y=b.add(LogicalAnd(), *both))
    log = check_passes(graph, [MarkMasks(), MarkMasks()], [{"x": WORDS}])
    columns = [
        n.target.column.name for n in graph.nodes() if hasattr(n.target, "column") and n.target.name == "column_value"
    ]
    assert list(log.applied()) and len(columns) == len(set(columns)) == 2
