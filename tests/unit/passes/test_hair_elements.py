"""Ids that are a column's but for a hair: they are not extracted, for the right reason, and the answer stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field, walk
from colonnade.ir.column import Column
from colonnade.ir.column_value import ColumnValue
from colonnade.ir.graph import Graph
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.bucketize import Bucketize
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.embedding_bag import EmbeddingBag
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.fill import Fill
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.gather_nd import GatherNd
from colonnade.ops.graph.logical_and import LogicalAnd
from colonnade.ops.graph.logical_not import LogicalNot
from colonnade.ops.graph.logical_or import LogicalOr
from colonnade.ops.graph.mul import Mul
from colonnade.ops.graph.range import Range
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.shape import Shape
from colonnade.ops.graph.size import Size
from colonnade.ops.graph.sparse_cross import SparseCross
from colonnade.ops.graph.sparse_to_dense import SparseToDense
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.tile import Tile
from colonnade.ops.graph.where import Where
from colonnade.ops.mod import Mod
from colonnade.ops.or_else import OrElse
from colonnade.ops.replace_outside import ReplaceOutside
from colonnade.ops.vocabulary import Vocabulary
from colonnade.ops.wrap_negative import WrapNegative
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


# -- ids from the end --------------------------------------------------------------------------------------------------
def from_end(b: Builder, x: Any, size: int = 4, kind: str = "lt", bound: int = 0, other: Any = None) -> Any:
    """`select(x < 0, x + size, x)`."""
    dtype = np.int64
    cond = b.add(Compare(kind), x if other is None else other, np.array(bound, dtype))
    return b.add(Select(), cond, b.add(Add(), x, np.array(size, dtype)), x)


def test_negative_ids_count_from_the_end() -> None:
    b = Builder()
    graph = looked_up(b, from_end(b, b.input("x", "int64", "B")))
    check_passes(graph, COLUMNS, [{"x": torch.tensor([-4, -1, 0, 3])}, {"x": IDS[:0]}])
    (column,) = columns(graph)
    assert column.ids == Apply(WrapNegative(4), Field("x")) and not column.ids_proven


def test_ids_that_are_proven_count_from_no_end() -> None:
    b = Builder()
    x = b.input("x", "float32", "B")
    ids = b.add(Cast("int64"), b.add(Bucketize(Const(np.array([0, 1, 2], np.float32))), x))
    graph = looked_up(b, from_end(b, ids))
    check_passes(graph, COLUMNS, [{"x": torch.tensor([-1.0, 0.5, float("nan")])}])
    (column,) = columns(graph)
    assert "WrapNegative" not in repr(column.ids) and column.ids_proven


@pytest.mark.parametrize("options", [{"kind": "le"}, {"bound": 1}, {"bound": -1}, {"kind": "ge"}, {"size": -4}])
def test_ids_that_do_not_count_from_the_end(options: dict[str, Any]) -> None:
    b = Builder()
    graph = looked_up(b, from_end(b, b.input("x", "int64", "B"), **options), rows=9)
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([2, 1, 3])}])
    assert "something else than a default or ids from the end" in reasons(log)[0] and not columns(graph)


def test_negative_ids_of_another_field() -> None:
    b = Builder()
    graph = looked_up(b, from_end(b, b.input("x", "int64", "B"), other=b.input("z", "int64", "B")))
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([2, -1]), "z": torch.tensor([0, -3])}])
    assert "not proven to be about the ids that it keeps" in reasons(log)[0]


# -- rows of a width that a request tells ------------------------------------------------------------------------------
def pooled(b: Builder, ids: Any, of: Any, kept: Any, other: Any = None) -> Graph:
    """The mean of the rows of ids by the first of their indices."""
    indices = kept if other is None else other
    rows = b.add(StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2), indices, [0, 0], [0, 1], [1, 1])
    count = b.add(Gather(), b.add(Shape("int32"), of), np.int32(0), np.int32(0))
    return b.done(y=b.add(EmbeddingBag("mean"), b.table("t", 4, 3), b.add(GatherNd(), ids, kept), rows, count))


OPEN = torch.tensor([[3, -1, 0, 0], [-1, -1, -1, -1], [1, 2, 3, -1]])


def test_rows_of_open_width_are_pooled() -> None:
    b = Builder()
    x = b.input("x", "int64", "B", "T")
    graph = pooled(b, x, x, b.add(Where(), b.add(Compare("ne"), x, np.array(-1))))
    check_passes(graph, COLUMNS, [{"x": OPEN}, {"x": OPEN[:0]}, {"x": OPEN[:, :0]}, {"x": OPEN[:1, :1]}])
    (column,) = columns(graph)
    assert column.ids == Field("x.0") and column.pooling == "mean"


def test_rows_of_open_width_by_a_hair() -> None:
    b = Builder()
    x, z = b.input("x", "int64", "B", "T"), b.input("z", "int64", "B", "T")
    by_other = b.add(Where(), b.add(Compare("ne"), z, np.array(-1)))
    kept = b.add(Where(), b.add(Compare("ne"), x, np.array(-1)))
    graph = pooled(b, x, x, kept, by_other)
    check_passes(graph, COLUMNS, [{"x": OPEN, "z": OPEN}])
    assert not columns(graph)
    b = Builder()
    x, z = b.input("x", "int64", "B", "T"), b.input("z", "int64", "B", "T")
    graph = pooled(b, x, x, b.add(Where(), b.add(Compare("ne"), z, np.array(-1))))
    log = check_passes(graph, COLUMNS, [{"x": OPEN, "z": OPEN}])
    assert any("not all elements of one field" in reason for reason in reasons(log)) and not columns(graph)


# -- places filled with a default --------------------------------------------------------------------------------------
def filled(
    b: Builder,
    *,
    default: int = 2,
    kind: str = "ne",
    other_mask: bool = False,
    other_shape: bool = False,
    dtype: str = "int64",
) -> Any:
    """`sparse_to_dense(where(x != 7), shape(x), x // 1 kept, default)`."""
    x = b.input("x", dtype, "B", 3)
    mask = b.add(Compare(kind), x, np.array(7, dtype))
    kept = b.add(Where(), mask)
    others = b.add(Where(), b.add(Compare("ne"), x, np.array(8, dtype))) if other_mask else kept
    shape = b.add(Shape("int64"), b.input("z", "int64", "B2", 3) if other_shape else x)
    ids = b.add(FloorMod(), b.add(GatherNd(), x, others), np.array(4, dtype))
    return b.add(SparseToDense(True), kept, shape, ids, np.array(default, dtype))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("default", [0, 2, 3])
def test_places_without_an_id_have_the_default(default: int, dtype: str) -> None:
    b = Builder()
    graph = looked_up(b, filled(b, default=default, dtype=dtype))
    x = torch.tensor([[7, 1, -3], [7, 7, 8]]).to(getattr(torch, dtype))
    check_passes(graph, COLUMNS, [{"x": x}, {"x": x[:0]}])
    (column,) = columns(graph)
    assert any(isinstance(e, Apply) and isinstance(e.op, OrElse) for e in walk(column.ids)) and column.ids_proven


@pytest.mark.parametrize("options", [{"default": -1}, {"kind": "gt"}, {"other_mask": True}, {"other_shape": True}])
def test_places_that_are_filled_otherwise(options: dict[str, Any]) -> None:
    b = Builder()
    graph = looked_up(b, filled(b, **options))
    check_passes(graph, COLUMNS, [])
    assert not columns(graph)


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


def inside(b: Builder, x: Any, low: int, high: int, kinds: tuple[str, str] = ("ge", "lt")) -> Any:
    above, below = (
        b.add(Compare(k), x, np.array(bound, np.int64)) for k, bound in zip(kinds, (low, high), strict=True)
    )
    return b.add(LogicalAnd(), above, below)


@pytest.mark.parametrize("negated", [False, True])
def test_ids_inside_an_interval_are_kept(negated: bool) -> None:
    """`select(low <= x < high, x, default)`, the default a number alone."""
    b = Builder()
    x = b.input("x", "int64", "B")
    cond = b.add(LogicalNot(), outside(b, x, 0, 4)) if negated else inside(b, x, 0, 4)
    graph = looked_up(b, b.add(Select(), cond, x, np.array(2, np.int64)))
    check_passes(graph, COLUMNS, [{"x": IDS}, {"x": IDS[:0]}])
    (column,) = columns(graph)
    assert column.ids_proven and column.ids == Apply(ReplaceOutside(0, 3, 2), Field("x"))


@pytest.mark.parametrize(
    ("low", "high", "kinds"),
    [(0, 5, ("ge", "lt")), (-1, 4, ("ge", "lt")), (0, 4, ("ge", "le")), (-1, 3, ("ge", "le"))],
)
def test_an_interval_that_is_wider_than_the_table_proves_nothing(low: int, high: int, kinds: tuple[str, str]) -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    graph = looked_up(b, b.add(Select(), inside(b, x, low, high, kinds), x, np.array(2, np.int64)))
    check_passes(graph, COLUMNS, [{"x": torch.tensor([0, 3, 1, 9])}])
    (column,) = columns(graph)
    assert not column.ids_proven


def test_a_condition_that_either_side_meets_keeps_no_interval() -> None:
    b = Builder()
    x = b.input("x", "int64", "B")
    graph = looked_up(b, b.add(Select(), outside(b, x, 1, 4), x, np.array(2, np.int64)), rows=9)
    log = check_passes(graph, COLUMNS, [{"x": torch.tensor([0, 3, 8])}])
    assert "not that ids lie outside an interval" in reasons(log)[0]


# -- the one id of a row -----------------------------------------------------------------------------------------------
ONE = StridedSlice(begin_mask=1, end_mask=1, shrink_axis_mask=2)


@pytest.mark.parametrize("at", [0, -1])
def test_the_first_of_one_id_is_the_id(at: int) -> None:
    b = Builder()
    buckets = b.add(Bucketize(Const(np.array([0, 1, 2], np.float32))), b.input("x", "float32", "B", 1))
    graph = looked_up(b, b.add(ONE, buckets, [0, at], [0, at + 1], [1, 1]))
    check_passes(graph, COLUMNS, [{"x": torch.tensor([[-1.0], [0.5], [float("nan")]])}, {"x": torch.zeros(0, 1)}])
    assert len(columns(graph)) == 1


@pytest.mark.parametrize(
    ("op", "width", "parts"),
    [
        (StridedSlice(begin_mask=3, end_mask=3), 1, ([0, 0], [0, 0], [-1, 1])),
        (StridedSlice(end_mask=3), 1, ([1, 0], [0, 0], [1, 1])),
    ],
)
def test_a_slice_that_is_not_all_ids_in_order_stays(op: StridedSlice, width: int, parts: Any) -> None:
    b = Builder()
    buckets = b.add(Bucketize(Const(np.array([0, 1, 2], np.float32))), b.input("x", "float32", "B", width))
    graph = looked_up(b, b.add(op, buckets, *parts))
    log = check_passes(graph, COLUMNS, [{"x": torch.arange(3 * width).reshape(3, width).float()}])
    assert "not provably keep all of it in order" in reasons(log)[0] and not columns(graph)


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


# -- a part of the table for each place in a row -----------------------------------------------------------------------
def buckets(b: Builder, width: int = 2) -> Any:
    x = b.input("x", "float32", "B", width)
    return b.add(Reshape(), b.add(Bucketize(Const(np.array([0, 5], np.float32))), x), [-1])


def batch(b: Builder, x: Any) -> Any:
    return b.add(Gather(), b.add(Shape("int32"), x), 0, 0)


def places(b: Builder, x: Any, width: int) -> Any:
    return b.add(Tile(), b.add(Range(), 0, width, 1), b.add(Reshape(), batch(b, x), [1]))


def bagged(b: Builder, ids: Any, x: Any, width: int = 2, rows: int = 6) -> Graph:
    """A bag of all ids of each row."""
    one_a_row = b.add(ExpandDims(), b.add(Range(), 0, batch(b, x), 1), 1)
    numbers = b.add(Reshape(), b.add(Tile(), one_a_row, [1, width]), [-1])
    return b.done(y=b.add(EmbeddingBag("sum"), b.table("t", rows, 3), ids, numbers, batch(b, x)))


FLOATS = torch.tensor([[-1.0, 7.0], [0.0, 5.0], [float("nan"), -3.0]])


@pytest.mark.parametrize(("stride", "fits"), [(3, True), (2, True), (4, False), (-3, False)])
def test_each_place_has_ids_of_its_own(stride: int, fits: bool) -> None:
    b = Builder()
    ids = buckets(b)
    moved = b.add(Add(), ids, b.add(Mul(), places(b, b.graph.inputs["x"], 2), np.array(stride, np.int32)))
    graph = bagged(b, moved, b.graph.inputs["x"])
    log = check_passes(graph, COLUMNS, [{"x": FLOATS[:2] if fits else FLOATS[:0]}])
    assert [c.ids_proven for c in columns(graph)] == [fits], reasons(log)


def test_places_of_another_width_are_not_those_of_the_row() -> None:
    b = Builder()
    ids = buckets(b)
    moved = b.add(Add(), ids, b.add(Range(), 0, b.add(Size("int32"), ids), 1))
    log = check_passes(bagged(b, moved, b.graph.inputs["x"], rows=9), COLUMNS, [{"x": FLOATS}])
    assert "count the places in a row" in reasons(log)[0]


def test_places_that_may_wrap_stay() -> None:
    b = Builder()
    x = b.input("x", "int32", "B", 2)
    ids = b.add(Reshape(), x, [-1])
    moved = b.add(Add(), ids, b.add(Mul(), places(b, b.graph.inputs["x"], 2), np.array(3, np.int32)))
    log = check_passes(bagged(b, moved, x), COLUMNS, [{"x": torch.tensor([[0, 1], [2, -1]], dtype=torch.int32)}])
    assert "may not fit int32" in reasons(log)[0]


def strings(*values: bytes) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


# -- crosses -----------------------------------------------------------------------------------------------------------
def crossed(b: Builder, *features: Any, num_sparse: int = 0) -> Graph:
    """A bag of the cross' ids, by the cross' own rows."""
    made = b.add(SparseCross(7, 5, num_sparse), *features)
    rows = b.add(StridedSlice(**COLUMN_0), b.item(made, 0), [0, 0], [0, 1], [1, 1])
    count = b.add(Gather(), b.item(made, 2), 0, 0)
    return b.done(y=b.add(EmbeddingBag("mean"), b.table("t", 7, 3), b.item(made, 1), rows, count))


COLUMN_0 = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
PAIR = {"x": strings(b"a", b"", b"c").reshape(3, 1), "z": strings(b"b", b"", b"d").reshape(3, 1)}


def test_a_cross_of_one_feature_a_row_is_a_column() -> None:
    b = Builder()
    graph = crossed(b, b.input("x", "string", "B", 1), b.input("z", "string", "B", 1))
    check_passes(graph, COLUMNS, [PAIR, {k: v[:0] for k, v in PAIR.items()}])
    (column,) = columns(graph)
    assert column.ids_proven and not column.filters


def test_a_cross_of_several_features_a_row_is_a_column_of_choices() -> None:
    b = Builder()
    graph = crossed(b, b.input("x", "string", "B", 1), b.input("z", "string", "B", 2))
    feed = PAIR | {"z": strings(b"b", b"", b"d", b"e", b"f", b"g").reshape(3, 2)}
    check_passes(graph, COLUMNS, [feed, {k: v[:0] for k, v in feed.items()}])
    assert len(columns(graph)) == 1


def sparse(b: Builder, x: Any, mask: Any) -> tuple[Any, Any, Any]:
    where = b.add(Where(), b.add(Compare("ne"), mask, np.array(-1)))
    return where, b.add(GatherNd(), x, where), b.add(Cast("int64"), b.add(Shape("int32"), x))


@pytest.mark.parametrize("same", [True, False])
def test_features_that_are_missing_drop_the_row(same: bool) -> None:
    b = Builder()
    x, z = b.input("x", "int64", "B", 1), b.input("z", "int64", "B", 1)
    indices, values, shape = sparse(b, x, x)
    if not same:
        indices, _, _ = sparse(b, z, z)
    graph = crossed(b, indices, values, shape, b.input("w", "string", "B", 1), num_sparse=1)
    feed = {"x": torch.tensor([[3], [-1], [5]]), "z": torch.tensor([[-1], [3], [5]]), "w": PAIR["x"]}
    log = check_passes(graph, COLUMNS, [feed])
    if same:
        (column,) = columns(graph)
        assert len(column.filters) == 1
    else:
        assert "not proven to be of the same elements" in reasons(log)[0]


def test_an_index_matrix_from_outside_may_repeat_rows() -> None:
    b = Builder()
    parts = b.input("i", "int64", "N", 2), b.input("v", "int64", "N"), b.input("s", "int64", 2)
    graph = crossed(b, *parts, b.input("w", "string", "B", 1), num_sparse=1)
    feed = {"i": torch.tensor([[0, 0], [0, 1]]), "v": torch.tensor([3, 4]), "s": torch.tensor([3, 2]), "w": PAIR["x"]}
    check_passes(graph, COLUMNS, [feed])
    assert len(columns(graph)) == 1, "a request is held to indices of rows; each choice is an element of its row"


# -- remainders --------------------------------------------------------------------------------------------------------
def remainder(divisor: Any, dtype: str = "int64", proven: bool = False) -> Graph:
    b = Builder()
    x = b.input("x", dtype, "B")
    if proven:
        x = b.add(Select(), b.add(Compare("lt"), x, np.array(0, dtype)), np.array(7, dtype), x)
    n = b.input("n", dtype, "B") if divisor is None else np.array(divisor, dtype)
    return looked_up(b, b.add(FloorMod(), x, n))


@pytest.mark.parametrize(("dtype", "divisor"), [("int64", 4), ("int64", 1), ("int64", 3), ("int32", 4)])
def test_a_remainder_of_signed_ids_is_no_unsigned_one(dtype: str, divisor: int) -> None:
    graph = remainder(divisor, dtype)
    x = IDS if dtype == "int64" else torch.tensor([-7, -1, 0, 3, 4, 2**31 - 1, -(2**31)], dtype=torch.int32)
    check_passes(graph, COLUMNS, [{"x": x}, {"x": x[:0]}])
    (column,) = columns(graph)
    ops = [e.op for e in walk(column.ids) if isinstance(e, Apply)]
    assert column.ids_proven and any(isinstance(op, Vocabulary) and op.function == "floor_mod" for op in ops)


def test_a_remainder_of_ids_that_are_proven_not_negative_is_the_unsigned_one() -> None:
    graph = remainder(4, proven=True)
    check_passes(graph, COLUMNS, [{"x": IDS}])
    (column,) = columns(graph)
    assert isinstance(column.ids, Apply) and column.ids.op == Mod(4)


def test_a_remainder_beyond_the_table_is_checked() -> None:
    graph = remainder(5)
    check_passes(graph, COLUMNS, [{"x": torch.tensor([-1 - 5, -2, 0, 8])[1:]}])
    assert not columns(graph)[0].ids_proven


@pytest.mark.parametrize(("divisor", "x"), [(-4, [0, 4, 8]), (None, [0, 9, 5])])
def test_a_remainder_by_what_is_no_positive_number_is_none(divisor: Any, x: list[int]) -> None:
    feed = {"x": torch.tensor(x)} | ({} if divisor else {"n": torch.tensor([3, 4, 2])})
    graph = remainder(divisor)
    log = check_passes(graph, COLUMNS, [feed])
    assert not columns(graph) and "not one positive integer" in reasons(log)[0]
