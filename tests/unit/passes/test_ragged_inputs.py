"""`ragged-inputs`: parts that belong together are tied, others by a hair are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.errors import FeedError
from colonnade.ir.interpret import interpret
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.reverse import Reverse
from colonnade.ops.graph.segment_sum import SegmentSum
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.sparse_fill_empty_rows import SparseFillEmptyRows
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.passes.base import Log, run
from colonnade.passes.ragged_inputs import RaggedInputs
from colonnade.testing.graphs import Builder, check_passes

COLUMN = StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2)
SORTED = torch.tensor([[0, 0], [0, 1], [2, 0]])


def filled(b: Builder, indices: Any, values: Any, shape: Any) -> Any:
    return b.item(b.add(SparseFillEmptyRows(), indices, values, shape, np.array(0, np.int64)), 1)


def tied(log: Log) -> list[str]:
    return [e.reason for e in log.events if e.applied]


def test_inputs_declared_late_are_tied_too() -> None:
    b = Builder()
    indices = b.input("indices", "int64", "N", 2)
    zero = b.constant(np.array(0, np.int64))
    shape, values = b.input("shape", "int64", 2), b.input("values", "int64", "M")
    y = b.item(b.add(SparseFillEmptyRows(), indices, values, shape, zero), 1)
    feed = {"indices": SORTED, "values": torch.tensor([1, 2, 3]), "shape": torch.tensor([4, 2])}
    graph = b.done(y=y)
    assert tied(check_passes(graph, (RaggedInputs(),), [feed]))
    with pytest.raises(FeedError, match="fall"):
        interpret(graph, feed | {"indices": SORTED.flip(0)})


@pytest.mark.parametrize(
    ("dtype", "columns", "size"), [("int64", 3, 3), ("int64", 2, 3), ("int64", "W", 2), ("int32", 2, 2)]
)
def test_other_ranks_and_dtypes_are_left_alone(dtype: str, columns: Any, size: int) -> None:
    b = Builder()
    if dtype == "int32":
        rows = b.add(COLUMN, b.input("indices", dtype, "N", columns), [0, 0], [0, 1], [1, 1])
        y = b.add(SegmentSum(), b.input("values", "int64", "N"), rows)
    else:
        parts = (
            b.input("indices", dtype, "N", columns),
            b.input("values", "int64", "N"),
            b.input("shape", "int64", size),
        )
        y = filled(b, *parts)
    assert not tied(run((RaggedInputs(),), b.done(y=y)))


def test_values_of_two_matrices_are_tied_to_the_first() -> None:
    b = Builder()
    values, shape = b.input("values", "int64", "N"), b.input("shape", "int64", 2)
    made = [filled(b, b.input(f"indices{k}", "int64", "N", 2), values, shape) for k in range(2)]
    log = run((RaggedInputs(),), b.done(a=made[0], b=made[1]))
    assert len(tied(log)) == 1
    assert "several index matrices" in next(e.reason for e in log.rejected())


def test_a_matrix_of_two_shapes_is_left_alone() -> None:
    b = Builder()
    indices, values = b.input("indices", "int64", "N", 2), b.input("values", "int64", "N")
    made = [filled(b, indices, values, b.input(f"shape{k}", "int64", 2)) for k in range(2)]
    assert not tied(run((RaggedInputs(),), b.done(a=made[0], b=made[1])))


def test_rows_without_a_shape_end_with_the_last_element() -> None:
    b = Builder()
    indices, values = b.input("indices", "int64", "N", 2), b.input("values", "float32", "N")
    y = b.add(SegmentSum(), values, b.add(COLUMN, indices, [0, 0], [0, 1], [1, 1]))
    graph = b.done(y=y)
    feed = {"indices": SORTED, "values": torch.tensor([1.0, 2.0, 3.0])}
    check_passes(graph, (RaggedInputs(),), [feed])
    (op,) = (n.target for n in graph.nodes() if isinstance(n.target, RaggedInput))
    assert op.trimmed


def made_of(b: Builder, kind: str) -> Any:
    """Values made of an input."""
    x = b.input("x", "int64", "N")
    if kind == "elements":
        known = b.add(Compare("lt"), x, np.array(3, np.int64))
        return b.add(Select(), known, b.add(Add(), x, np.array(1, np.int64)), np.array(0, np.int64))
    if kind == "two inputs":
        return b.add(Add(), x, b.input("z", "int64", "N"))
    if kind == "reversed":
        return b.add(Reverse(), x, [0])
    return b.add(Gather(), x, b.add(Cast("int64"), b.input("at", "int64", "N")), 0)


@pytest.mark.parametrize("kind", ["elements", "two inputs", "reversed", "gathered"])
def test_splits_of_values_made_element_by_element_say_the_rows_of_their_input(kind: str) -> None:
    b = Builder()
    values = made_of(b, kind)
    ragged = b.add(RaggedInput("splits"), b.input("splits", "int64", "S"), values)
    graph = b.done(rows=b.item(ragged, 0), values=b.item(ragged, 1), shape=b.item(ragged, 2))
    numbers = torch.tensor([5, 1, 0])
    feed = {"x": numbers, "splits": torch.tensor([0, 2, 2, 3])}
    feed |= {key: torch.tensor([2, 0, 1]) for key in ("z", "at") if key in graph.inputs}
    assert bool(tied(check_passes(graph, (RaggedInputs(),), [feed]))) == (kind == "elements")
