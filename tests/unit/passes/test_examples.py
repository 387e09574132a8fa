"""Passes over parsed Examples, known buckets and conditions made of constants; and what misses them by a hair."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.core.examples import Feature
from colonnade.errors import ColonnadeError
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph, Node
from colonnade.ir.interpret import interpret
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.pack import Pack
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.sqrt import Sqrt
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.upper_bound import UpperBound
from colonnade.ops.graph.zeros_like import ZerosLike
from colonnade.passes.base import Log
from colonnade.passes.bucket_bounds import BucketBounds
from colonnade.passes.drop_selects import DropSelects
from colonnade.passes.pad_examples import PadExamples
from colonnade.passes.pipelines import COLUMNS
from colonnade.testing.graphs import Builder, check_passes
from tests.unit.ops.graph import examples

A, B = Feature("a", "int64", "sparse"), Feature("b", "int64", "sparse")


def rows(*lengths: tuple[int, int]) -> Any:
    """Examples with so many values of a and b."""
    made = np.empty(len(lengths), object)
    made[:] = [
        examples.example(
            *(
                examples.entry(k, examples.listed("int64", list(range(1, n + 1))))
                for k, n in zip("ab", num, strict=True)
            )
        )
        for num in lengths
    ]
    return made


FEEDS = [{"rows": rows((1, 1), (0, 0), (1, 0))}, {"rows": rows()}, {"rows": rows((1, 1))}]


class Parsed(Builder):
    """A graph that parses the features a and b."""

    def __init__(self) -> None:
        super().__init__()
        self.parse = self.add(ParseExample((A, B)), self.input("rows", "string", "B"))

    def of(self, what: str, feature: Feature = A) -> Node:
        op = self.parse.target
        assert isinstance(op, ParseExample)
        return self.item(self.parse, next(k for k in range(op.num_outputs) if op.place(k) == (feature, what)))

    def num_rows(self, feature: Feature = A) -> Node:
        step = StridedSlice(shrink_axis_mask=1)
        return self.add(step, self.of("shape", feature), [0], [1], [1])


def shaped(b: Parsed, width: int) -> Node:
    return b.add(Pack(0), b.num_rows(), np.array(width, np.int64))


def count(graph: Graph, op: type) -> int:
    return sum(isinstance(n.target, op) for n in graph.nodes())


def reasons(log: Log) -> list[str]:
    return [e.reason for e in log.rejected()]


@pytest.mark.parametrize("width", [1, 2])
def test_a_feature_made_dense_is_padded(width: int) -> None:
    b = Parsed()
    y = b.add(SparseToDense(), b.of("indices"), shaped(b, width), b.of("values"), np.array(-1, np.int64))
    graph = b.done(y=y, places=b.of("indices", B))
    check_passes(graph, (PadExamples(), PadExamples()), FEEDS)
    assert count(graph, SparseToDense) == 0
    for feed in ({"rows": rows((width + 1, 0))}, {"rows": rows((0, 0), (5, 5))}):
        with pytest.raises(ColonnadeError, match="want at most"):
            interpret(graph, feed)


def _other_values(b: Parsed) -> tuple[Any, ...]:
    return b.of("indices"), shaped(b, 1), b.of("values", B), np.array(0, np.int64)


def _indices_of_a_slice(b: Parsed) -> tuple[Any, ...]:
    step = StridedSlice(begin_mask=1, end_mask=1)
    return b.add(step, b.of("indices"), [0], [0], [1]), shaped(b, 1), b.of("values"), np.array(0, np.int64)


def _known_rows(b: Parsed) -> tuple[Any, ...]:
    return b.of("indices"), np.array([3, 1]), b.of("values"), np.array(0, np.int64)


def _own_shape(b: Parsed) -> tuple[Any, ...]:
    return b.of("indices"), b.of("shape"), b.of("values"), np.array(0, np.int64)


def _fed_default(b: Parsed) -> tuple[Any, ...]:
    return b.of("indices"), shaped(b, 1), b.of("values"), b.input("default", "int64")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_other_values, "indices and values are not of one feature"),
        (_known_rows, "the shape is not proven to be (number of Examples, a known width)"),
        (_own_shape, "the shape is not proven to be (number of Examples, a known width)"),
        (_fed_default, "the default is computed"),
        (_indices_of_a_slice, None),
    ],
)
def test_what_is_not_padded(make: Callable[[Parsed], tuple[Any, ...]], reason: str | None) -> None:
    b = Parsed()
    graph = b.done(y=b.add(SparseToDense(), *make(b)))
    feed = {"rows": rows((1, 1), (0, 0), (1, 1)), "default": torch.tensor(7)}
    log = check_passes(graph, (PadExamples(),), [feed])
    assert count(graph, SparseToDense) == 1
    assert reasons(log) == ([reason] if reason else [])


def test_a_sparse_feature_is_a_ragged_column() -> None:
    b = Parsed()
    step = StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2)
    row = b.add(step, b.of("indices"), [0, 0], [0, 1], [1, 1])
    bag = EmbeddingBag("mean", None)
    graph = b.done(
        y=b.add(bag, b.table("t", 9, 3), b.of("values"), row, b.num_rows()),
        z=b.add(bag, b.table("u", 9, 3), b.of("values", B), row, b.num_rows()),
    )
    feeds = [{"rows": rows((2, 2), (0, 0), (5, 5), (1, 1))}, {"rows": rows()}]
    log = check_passes(graph, COLUMNS, feeds)
    (column,) = [n.target for n in graph.nodes() if isinstance(n.target, ColumnValue)]
    assert column.ragged and column.fields == ("a",)
    assert "row numbers and ids are not proven to be of the same elements" in reasons(log)


def test_a_place_in_a_known_row_is_a_bucket() -> None:
    for dtype in ("int32", "int64"):
        b = Builder()
        x = b.input("x", "float32", 1, "B")
        bounds = b.add(Reshape(), np.array([-1.0, 0.5, 0.5], np.float32), [1, 3])
        graph = b.done(y=b.add(UpperBound(dtype), bounds, x))
        feed = torch.tensor([[float("nan"), 0.5, -1.0, -2.0, float("inf"), -0.0]])
        check_passes(graph, (BucketBounds(), BucketBounds()), [{"x": feed}, {"x": feed[:, :0]}])
        assert count(graph, UpperBound) == 0 and count(graph, Bucketize) == 1


@pytest.mark.parametrize(
    ("bounds", "shape", "dtype"),
    [
        ([0.5, -1.0], [1, 2], "float32"),  # not sorted
        ([-1.0, float("nan")], [1, 2], "float32"),
        ([-1.0, 0.5], [2, 1], "float32"),  # a row for each row of values
        ([-1, 5], [1, 2], "int64"),
    ],
)
def test_what_is_no_bucket(bounds: list[float], shape: list[int], dtype: str) -> None:
    b = Builder()
    x = b.input("x", dtype, shape[0], "B")
    known = b.add(Reshape(), np.array(bounds, dtype), shape)
    graph = b.done(y=b.add(UpperBound(), known, x))
    feed = torch.tensor(np.array([[0, 3, -2]] * shape[0], dtype))
    log = check_passes(graph, (BucketBounds(),), [{"x": feed}])
    assert count(graph, UpperBound) == 1 and len(reasons(log)) == 1


def test_a_condition_made_of_constants_chooses() -> None:
    """As a score is scaled: by its deviation, where that is not 0."""
    for variance, kept in ((4.0, 0), (0.0, 0), (float("nan"), 0), (1e-40, 1)):
        b = Builder()
        x = b.input("x", "float32", "B")
        varies = b.add(Compare("ne"), b.add(Sqrt(), np.array(variance, np.float32)), np.array(0.0, np.float32))
        condition = b.add(Cast("bool"), b.add(Add(), b.add(ZerosLike(), x), b.add(Cast("float32"), varies)))
        graph = b.done(y=b.add(Select(), condition, b.add(Add(), x, x), x))
        check_passes(graph, (DropSelects(),), [{"x": torch.tensor([1.0, float("nan"), -0.0])}])
        assert count(graph, Select) == kept


def test_passes_keep_random_examples() -> None:
    for seed in range(20):
        r = random.Random(seed)
        features = (*examples.wanted(r, ("sparse",)), Feature("only a", "int64", "sparse"))
        b = Builder()
        parse = b.add(ParseExample(features), b.input("rows", "string", "B"))
        outputs = {f"o{k}": b.item(parse, k) for k in range(3 * len(features))}
        num = b.add(StridedSlice(shrink_axis_mask=1), outputs[f"o{2 * len(features)}"], [0], [1], [1])
        fill = Const(examples.array([examples.value(r, features[0].dtype)], features[0].dtype, ()))
        shape = b.add(Pack(0), num, np.array(r.choice([5, 9]), np.int64))
        values = outputs[f"o{len(features)}"]
        dense = b.add(SparseToDense(), outputs["o0"], shape, values, fill.array)
        graph = b.done(**outputs, y=b.add(Squeeze(()), dense))
        made = np.empty(4, object)
        made[:] = [examples.serialized(r, features, wrong=0, damage=0) for _ in range(4)]
        check_passes(graph, COLUMNS, [{"rows": made}, {"rows": made[:0]}])


@pytest.mark.parametrize("width", [(1,), (1, 1)])
def test_a_gather_of_one_vector_a_row_is_a_column_whatever_its_rank(width: tuple[int, ...]) -> None:
    b = Builder()
    x = b.input("x", "int64", "B", *width)
    found = b.add(Gather(), b.table("t", 9, 3), x, 0)
    graph = b.done(flat=b.add(Reshape(), found, [-1, 3]), whole=found, other=b.add(Reshape(), found, [3, -1]))
    feed = torch.tensor([4, 0, 8]).reshape(3, *width)
    check_passes(graph, COLUMNS, [{"x": feed}, {"x": feed[:1]}])
    assert isinstance(graph.outputs["flat"].target, ColumnValue)
