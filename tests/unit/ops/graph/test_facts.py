"""What inference proves, by hand: the facts that the passes live on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.core import dims, facts
from colonnade.core.consts import Const
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Indexed, Order, Packed, Term
from colonnade.errors import ShapeError
from colonnade.ops import graph
from colonnade.ops.graph.constant import facts_of
from colonnade.ops.op import GRAPH_OPS, fresh

graph.load()
B, T = dims.symbol("B"), dims.symbol("T")


def known(values: Any, dtype: str = "int32") -> Facts:
    return facts_of(np.array(values, dtype=dtype))


def fed(dtype: str, *shape: Dim, **more: Any) -> Facts:
    return facts.facts(dtype, shape, **more)


def infer(name: str, *args: Facts, **attributes: Any) -> Facts:
    return GRAPH_OPS[name](**attributes).infer(*args).outputs[0]


def iota(n: Dim) -> Facts:
    return infer("range", known(0), facts.facts("int32", (), content=(n,)), known(1))


def column(x: Facts, k: int) -> Facts:
    masks = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
    return infer("strided_slice", x, known([0, k]), known([0, k + 1]), known([1, 1]), **masks)


def row_and_column(width: int) -> Facts:
    """The index matrix of a dense [B, width] feature, as bucketized columns build it."""
    rows = infer("tile", infer("expand_dims", iota(B), known(1)), known([1, width]))
    rows = infer("reshape", rows, known([-1]))
    columns = infer("tile", infer("range", known(0), known(width), known(1)), facts.facts("int32", (1,), content=(B,)))
    stacked = infer("pack", rows, columns, axis=0)
    return infer("cast", infer("transpose", stacked, known([1, 0])), to="int64")


def test_range_is_iota() -> None:
    assert facts.is_iota(iota(B)) and iota(B).order == Order.STRICT
    assert iota(3).ints == (0, 1, 2)
    assert iota(1000).hi == 999


def test_rows_and_columns_of_a_dense_feature() -> None:
    x = row_and_column(3)
    assert x.shape == (3 * B, 2) and x.packed is not None and x.packed.axis == 1
    assert column(x, 0).content == Indexed((Term(1, 3, None),), 0)
    assert column(x, 0).order == Order.NONDECREASING
    assert column(x, 1).content == Indexed((Term(1, 1, 3),), 0)


def test_a_row_for_each_is_not_filled() -> None:
    x, values = row_and_column(3), fed("int64", dims.mul(3, B), lo=0, hi=9)
    shape = fed("int64", 2, content=(B, 3))
    out = GRAPH_OPS["sparse_fill_empty_rows"]().infer(x, values, shape, known(7, "int64")).outputs
    assert out[0] is x and out[1] is values and out[2].hi == 0 and facts.is_iota(out[3])


def test_fewer_rows_than_the_batch_are_filled() -> None:
    x, values = row_and_column(3), fed("int64", dims.mul(3, B), lo=0, hi=9)
    shape = fed("int64", 2, content=(dims.add(B, 1), 3))
    out = GRAPH_OPS["sparse_fill_empty_rows"]().infer(x, values, shape, known(70, "int64")).outputs
    assert out[1].shape == (fresh(0),) and out[1].hi == 70 and out[2].hi == 1
    assert column(out[0], 0).order == Order.NONDECREASING


def test_sparse_reshape_keeps_or_recuts() -> None:
    x, old = row_and_column(6), fed("int64", 2, content=(B, 6))
    kept = GRAPH_OPS["sparse_reshape"]().infer(x, old, fed("int64", 2, content=(B, -1))).outputs
    assert kept[0] is x and kept[1].values == (B, 6)
    cut = GRAPH_OPS["sparse_reshape"]().infer(x, old, fed("int64", 3, content=(B, 2, 3))).outputs[0]
    assert cut.packed is not None
    assert cut.packed.parts[0].content == Indexed((Term(1, 6, None),), 0)
    assert cut.packed.parts[1].content == Indexed((Term(1, 3, 2),), 0)


def test_reshape_solves_minus_one() -> None:
    x = fed("float32", B, T, 4)
    assert infer("reshape", x, known([-1, 4])).shape == (dims.mul(B, T), 4)
    assert infer("reshape", x, fed("int32", 2, content=(B, -1))).shape == (B, dims.mul(4, T))
    assert infer("reshape", fed("float32", B, 3), known([-1, 2])).shape == (dims.floor_divide(3 * B, 2), 2)


def test_guards_are_proven_by_range() -> None:
    ids = fed("int64", B, lo=0, hi=9)
    assert infer("compare", ids, known(0, "int64"), kind="ge").lo == 1
    assert infer("compare", ids, known(10, "int64"), kind="lt").lo == 1
    assert infer("compare", ids, known(9, "int64"), kind="lt") == fed("bool", B, lo=0, hi=1)
    assert infer("compare", ids, known(-1, "int64"), kind="eq").hi == 0
    assert infer("where", infer("compare", ids, known(0, "int64"), kind="ge")).shape == (B, 1)


def test_bucketize_reaches_the_number_of_boundaries() -> None:
    made = infer("bucketize", fed("float32", B), boundaries=Const(np.array([0, 1, 2], np.float32)))
    assert (made.lo, made.hi) == (0, 3)


@pytest.mark.parametrize(
    ("lo", "hi", "kept"), [(0, 9, True), (0, 2**31 - 1, True), (0, 2**31, False), (None, 5, False)]
)
def test_a_narrowing_cast_keeps_only_what_fits(lo: int | None, hi: int, kept: bool) -> None:
    made = infer("cast", fed("int64", B, lo=lo, hi=hi, order=Order.STRICT), to="int32")
    assert (made.hi == hi) == kept and (made.order == Order.STRICT) == kept


def test_arithmetic_that_may_wrap_proves_nothing() -> None:
    x = fed("int32", B, lo=0, hi=2**30)
    assert infer("add", x, x).hi is None
    assert infer("mul", x, known(2)).hi is None and infer("mul", x, known(1)).hi == 2**30
    assert infer("mul", iota(B), known(2**20)).content is None
    assert infer("mul", iota(B), known(101)).content == Indexed((Term(101, 1, None),), 0)
    assert infer("prod", known([2**20, 2**20]), known([0])).content is None
    assert infer("neg", fed("int32", B)).hi is None


def test_mod_bounds_whatever_the_dividend() -> None:
    assert infer("floor_mod", fed("int64", B), known(10, "int64")).hi == 9
    assert infer("floor_mod", fed("int64", B), fed("int64")).lo is None


def test_gathered_rows_keep_their_order_only_in_order() -> None:
    x = fed("int64", T, 2, packed=Packed(1, (fed("int64", T, order=Order.NONDECREASING), fed("int64", T))))
    sorted_rows, rows = fed("int64", B, order=Order.STRICT), fed("int64", B)
    assert column(infer("gather", x, sorted_rows, known(0)), 0).order == Order.NONDECREASING
    assert column(infer("gather", x, rows, known(0)), 0).order == Order.NONE
    assert infer("gather", x, iota(T), known(0)) is x


def test_slices_that_may_clamp_have_a_fresh_size() -> None:
    x = fed("float32", B)
    one = known([1])
    assert infer("strided_slice", x, known([0]), known([5]), one).shape == (fresh(0),)
    assert infer("strided_slice", x, known([1]), known([2]), one).shape == (fresh(0),)
    assert infer("strided_slice", x, known([0]), fed("int32", 1, content=(B,)), one).shape == (B,)
    assert infer("strided_slice", x, known([0]), known([0]), known([-1]), begin_mask=1, end_mask=1).shape == (B,)
    assert infer("strided_slice", fed("float32", dims.add(B, 3)), known([1]), known([3]), one).shape == (2,)


def test_slices_open_at_an_end_know_their_size() -> None:
    x, one = fed("float32", B), known([1])
    but_one = dims.maximum(dims.sub(B, 1), 0)
    assert infer("strided_slice", x, known([1]), known([0]), one, end_mask=1).shape == (but_one,)
    assert infer("strided_slice", x, known([0]), known([-1]), one, begin_mask=1).shape == (but_one,)
    last = infer("strided_slice", x, known([-1]), known([0]), one, end_mask=1).shape
    assert last == (dims.sub(B, but_one),)
    assert [dims.evaluate(last[0], {B: n}) for n in (0, 1, 5)] == [0, 1, 1]


def test_a_reversed_slice_is_no_identity() -> None:
    whole = infer("strided_slice", iota(B), known([0]), known([0]), known([-1]), begin_mask=1, end_mask=1)
    assert whole.order == Order.NONE
    assert whole.content == Indexed((Term(-1, 1, None),), dims.sub(B, 1))


def test_concat_and_pack_require_equal_dims() -> None:
    made = GRAPH_OPS["concat"]().infer(fed("float32", B, 2), fed("float32", T, 3), known(1))
    assert made.outputs[0].shape == (B, 5) and made.equal == ((B, T),)
    assert GRAPH_OPS["pack"]().infer(fed("float32", B), fed("float32", T)).equal == ((B, T),)
    with pytest.raises(ShapeError):
        GRAPH_OPS["concat"]().infer(fed("float32", 4, 2), fed("float32", 5, 3), known(1))


def test_v1_select_unifies_the_filled_count_with_the_batch() -> None:
    made = GRAPH_OPS["select"](v1=True).infer(fed("bool", B, 8), fed("float32", T, 8), fed("float32", T, 8))
    assert made.equal == ((T, B),)


def test_segments_of_one_id_a_row() -> None:
    table, ids = fed("float32", 100, 8), fed("int64", B)
    assert infer("sparse_segment_reduce", table, ids, iota(B), pooling="mean").shape == (B, 8)
    assert infer("sparse_segment_reduce", table, ids, fed("int32", B), pooling="mean").shape == (fresh(0), 8)


def test_shape_construct_is_its_expressions() -> None:
    made = infer("shape_construct", fed("float32", B, T), exprs=("x*y", "7"), symbols=(("x", 0, 0), ("y", 0, 1)))
    assert made.values == (dims.mul(B, T), 7)


REFUSED = [
    ("where", [fed("int32", B)], {}),
    ("add", [fed("int32", B), fed("int64", B)], {}),
    ("add", [fed("int32", 2), fed("int32", 3)], {}),
    ("relu", [fed("string", B)], {}),
    ("mat_mul", [fed("float32", B, 2), fed("float32", 3, 4)], {}),
    ("mat_mul", [fed("float32", B), fed("float32", 3, 4)], {}),
    ("expand_dims", [fed("float32", B), known(3)], {}),
    ("squeeze", [fed("float32", B, 3)], {"dims": (1,)}),
    ("reshape", [fed("float32", 2, 3), known([4, -1, -1])], {}),
    ("transpose", [fed("float32", B, 3), known([0, 0])], {}),
    ("gather", [fed("float32", B), fed("float32", 3), known(0)], {}),
    ("strided_slice", [fed("float32", 3), known([3]), known([4]), known([1])], {"shrink_axis_mask": 1}),
    ("strided_slice", [fed("float32", B), known([0]), known([1]), known([0])], {}),
    ("compare", [fed("string", B), fed("string", B)], {"kind": "lt"}),
    ("string_split", [fed("string", B, 2)], {"separator": b","}),
    ("sparse_segment_reduce", [fed("float32", 3, 2), fed("int64", B), fed("int64", B)], {"pooling": "max"}),
]


@pytest.mark.parametrize(("name", "args", "attributes"), REFUSED)
def test_refuses(name: str, args: list[Facts], attributes: dict[str, Any]) -> None:
    with pytest.raises(ShapeError):
        infer(name, *args, **attributes)


def test_elementwise_says_column_ops() -> None:
    from colonnade.core.expr import Apply, Field
    from colonnade.ops import bucketize, cast, hash_bytes, mod

    x, bounds = Field("x"), Const(np.array([1.0], np.float32))
    assert GRAPH_OPS["bucketize"](bounds, True).elementwise(x) is Apply(bucketize.Bucketize(bounds, True), x)
    assert GRAPH_OPS["cast"]("int64").elementwise(x) is Apply(cast.Cast("int64"), x)
    assert GRAPH_OPS["cast"]("bool").elementwise(x) is None
    hashed = Apply(mod.Mod(10), Apply(hash_bytes.HashBytes(), x))
    assert GRAPH_OPS["string_to_hash_bucket"](10).elementwise(x) is hashed
