"""`pad-tokens`: tokens that no mask cuts are read of rows that the host splits; others by a hair are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.core.consts import Const
from colonnade.ir.column_value import ColumnValue
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.rows_to_dense import RowsToDense
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.split_rows import SplitRows
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.string_lower import StringLower
from colonnade.ops.graph.string_split import StringSplit
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.graph.string_to_number import StringToNumber
from colonnade.ops.graph.vocabulary import Vocabulary
from colonnade.passes.base import Log
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes

COLUMN = StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2)
SIZE = StridedSlice(shrink_axis_mask=1)


def texts(*values: bytes) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


FEEDS = [{"x": texts(b"a,b,,c", b"", b"b"), "y": texts(b"b", b"a,a", b",")}, {"x": texts(), "y": texts()}]


def word(value: bytes) -> Any:
    made = np.empty((), object)
    made[()] = value
    return made


class Words:
    """A builder, and the tokens of an input."""

    def __init__(self, skip_empty: bool = False) -> None:
        self.b = Builder()
        self.x = self.b.input("x", "string", "B")
        self.split = self.b.add(StringSplit(b",", skip_empty), self.x)
        self.tokens = self.b.item(self.split, 1)

    def rows(self, split: Any = None) -> Any:
        return self.b.add(COLUMN, self.b.item(split or self.split, 0), [0, 0], [0, 1], [1, 1])

    def count(self, x: Any = None) -> Any:
        return self.b.add(SIZE, self.b.add(Shape("int64"), x or self.x), [0], [1], [1])

    def padded(self, values: Any, default: Any, rows: Any = None, width: int | None = None) -> Any:
        return self.b.add(RowsToDense(width), rows or self.rows(), values, default, self.count())

    def hashed(self, x: Any) -> Any:
        return self.b.add(StringToHashBucket(4), x)

    def looked_up(self, x: Any) -> Any:
        return self.b.add(Vocabulary(Const(texts(b"", b"a")), Const(np.array([0, 1])), 2), x)

    def vectors(self, ids: Any) -> Any:
        return self.b.add(Gather(), self.b.table("t", 4, 3), ids, 0)


def applied(log: Log) -> int:
    return sum(e.applied and e.pass_name == "pad-tokens" for e in log.events)


def reasons(log: Log) -> list[str]:
    return [e.reason for e in log.rejected() if e.pass_name == "pad-tokens"]


def splits(graph: Any) -> list[SplitRows]:
    return [n.target for n in graph.nodes() if isinstance(n.target, SplitRows)]


def columns(graph: Any) -> list[Any]:
    return [n.target.column for n in graph.nodes() if isinstance(n.target, ColumnValue)]


@pytest.mark.parametrize("skip_empty", [False, True])
@pytest.mark.parametrize("width", [None, 2])
def test_words_are_padded_with_the_default(skip_empty: bool, width: int | None) -> None:
    w = Words(skip_empty)
    ids = w.hashed(w.padded(w.tokens, word(b"#"), width=width))
    graph = w.b.done(y=w.vectors(ids))
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1
    assert [(s.fill, s.skip_empty, s.width) for s in splits(graph)] == [(b"#", skip_empty, width)]
    assert len(columns(graph)) == 1


def test_an_empty_token_stands_behind_where_it_becomes_the_default() -> None:
    w = Words()
    graph = w.b.done(y=w.vectors(w.padded(w.looked_up(w.tokens), np.array(0))))
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1
    assert [s.fill for s in splits(graph)] == [b""] and len(columns(graph)) == 1


def test_the_separator_stands_behind_where_it_does_not() -> None:
    w = Words()
    graph = w.b.done(y=w.vectors(w.padded(w.looked_up(w.tokens), np.array(3))))
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1
    assert [s.fill for s in splits(graph)] == [b","] and len(columns(graph)) == 1


def test_vectors_are_looked_up_again_and_cleared() -> None:
    w = Words()
    graph = w.b.done(y=w.padded(w.vectors(w.hashed(w.tokens)), np.float32(0)))
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1 and len(columns(graph)) == 2


def test_paddings_of_the_same_tokens_have_the_same_places() -> None:
    w = Words()
    one, other = w.padded(w.hashed(w.tokens), np.array(3)), w.padded(w.tokens, word(b"#"))
    graph = w.b.done(y=w.b.add(Add(), w.vectors(one), w.vectors(w.hashed(other))))
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 2
    assert [s.symbol for s in splits(graph)] == ["k0", "k0"] and len(columns(graph)) == 2


def test_strings_that_the_host_makes() -> None:
    w = Words()
    split = w.b.add(StringSplit(b","), w.b.add(StringLower(False), w.x))
    ids = w.hashed(w.padded(w.b.item(split, 1), word(b""), w.rows(split)))
    graph = w.b.done(y=w.vectors(ids))
    assert applied(check_passes(graph, COLUMNS, FEEDS)) == 1 and len(columns(graph)) == 1


def test_rows_of_another_splitting() -> None:
    w = Words()
    other = w.b.add(StringSplit(b","), w.b.input("y", "string", "B"))
    graph = w.b.done(y=w.vectors(w.hashed(w.padded(w.tokens, word(b""), w.rows(other)))))
    feeds = [{"x": FEEDS[0]["x"], "y": FEEDS[0]["x"]}]
    log = check_passes(graph, COLUMNS, feeds)
    assert not applied(log) and not columns(graph)


def test_vectors_padded_with_something_else() -> None:
    w = Words()
    graph = w.b.done(y=w.padded(w.vectors(w.hashed(w.tokens)), np.float32(-0.0)))
    log = check_passes(graph, COLUMNS, FEEDS)
    assert not applied(log) and "something else than zeros" in reasons(log)[0]


def test_tokens_that_are_no_column() -> None:
    w = Words()
    numbers = w.b.add(StringToNumber("int64"), w.tokens)
    graph = w.b.done(y=w.vectors(w.padded(numbers, np.array(0))))
    log = check_passes(graph, COLUMNS, [{"x": texts(b"1,2", b"3")}])
    assert not applied(log) and "string_to_number" in reasons(log)[0]


def test_another_number_of_rows() -> None:
    w = Words()
    y = w.b.input("y", "string", "C")
    rows = w.b.add(RowsToDense(), w.rows(), w.tokens, word(b""), w.count(y))
    graph = w.b.done(y=w.vectors(w.hashed(rows)), z=w.b.add(Compare("eq"), y, word(b"a")))
    log = check_passes(graph, COLUMNS, [{"x": texts(b"a,b", b"b"), "y": texts(b"b", b"a", b"")}])
    assert not applied(log) and "those of the strings" in reasons(log)[0]
