from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from colonnade.core.dims import symbol
from colonnade.core.expr import Apply, Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Instruction, Program, Ref, Weights
from colonnade.ir.table import Table
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.split import Split
from colonnade.testing.compare import (
    EPS,
    _may_overflow,
    added_rtol,
    allowed_of_column,
    allowed_of_dense,
    dense_rtol,
    difference,
    overflowing,
)
from colonnade.testing.points import margin

F32 = np.float32


def test_equal_bits_nan_and_infinities_are_no_difference() -> None:
    x = np.array([1.5, np.nan, np.inf, -np.inf, -0.0, 0.0], F32)
    assert difference(x, x.copy(), 0.0).ok
    other_nan = np.array([np.uint32(0x7FC00001)]).view(F32)
    assert difference(other_nan, np.array([np.nan], F32), 0.0).ok


@pytest.mark.parametrize(
    ("got", "want"),
    [(1.0, np.nextafter(F32(1), F32(2))), (np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 3.0), (0.0, 1e-30)],
)
def test_without_tolerance_every_other_difference_is_outside(got: float, want: float) -> None:
    found = difference(np.array([[0.0, got]], F32), np.array([[0.0, want]], F32), 0.0)
    assert (found.outside, found.differing, found.row, found.element) == (1, 1, 0, 1)
    assert found.ratio > 1 and not found.ok


def test_flushed_values_count_as_zero() -> None:
    assert difference(np.array([1e-40, -1e-40], F32), np.array([0.0, 0.0], F32), 0.0).ok


def test_tolerance_is_for_each_element_and_the_worst_is_named() -> None:
    want = np.zeros((3, 2), F32)
    got = want.copy()
    got[1, 0], got[2, 1] = 0.5, 0.25
    allowed = np.full((3, 2), 0.5)
    found = difference(got, want, allowed)
    assert found.ok and found.ratio == 1.0 and found.row == 1
    allowed[2, 1] = 0.1
    found = difference(got, want, allowed)
    assert (found.outside, found.row, found.element, found.got) == (1, 2, 1, "0.25")
    assert found.ratio == pytest.approx(2.5)


def test_shapes_and_dtypes_must_be_equal() -> None:
    assert "want" in difference(np.zeros((2, 1), F32), np.zeros(2, F32), 1.0).problem
    assert "int32" in difference(np.zeros(2, F32), np.zeros(2, np.int32), 1.0).problem
    assert difference(np.zeros((0, 4), F32), np.zeros((0, 4), F32), 0.0).ok


def test_other_kinds_must_be_equal() -> None:
    assert difference(np.array([1, 2]), np.array([1, 2]), 0.0).ok
    found = difference(np.array([1, 2]), np.array([1, 3]), 100.0)
    assert found.outside == 1 and found.row == 1
    assert not difference(np.array([b"a"], object), np.array([b"b"], object), 0.0).ok


def _split_column(pooling: str) -> tuple[Column, Program, Weights]:
    ids = Apply(Mod(5), Apply(HashBytes("farm"), Apply(Split(b";"), Field("x"))))
    column = Column("x", ids, "t", pooling, slots=(Slot("b", 0, 3),))
    batch = symbol("B")
    program = Program(
        (Input("x", "string", (batch,)),), (Table("t", 5, 3),), (column,), (Buffer("b", batch, 3),), (), ()
    )
    table = np.arange(15, dtype=F32).reshape(5, 3) - 7
    return column, program, Weights({"t": table}, {}, {})


@pytest.mark.parametrize(("pooling", "divisor"), [("sum", 1.0), ("mean", 3.0), ("sqrtn", math.sqrt(3))])
def test_pooled_rows_get_the_stated_tolerance_and_single_rows_none(pooling: str, divisor: float) -> None:
    column, program, weights = _split_column(pooling)
    words = np.array([b"a", b"a;a;a"], object)
    allowed = allowed_of_column(column, program, weights, {"x": words}, 2)
    assert (allowed[0] == 0).all()
    hashed = HashBytes("farm").reference(words[:1])
    row = np.abs(weights.tables["t"])[int(Mod(5).reference(hashed)[0])]
    np.testing.assert_allclose(allowed[1], 2 * 4 * np.finfo(F32).eps * 3 * (3 * row) / divisor, rtol=1e-6, atol=1e-36)


def test_pooled_tolerance_of_an_empty_batch() -> None:
    column, program, weights = _split_column("mean")
    assert allowed_of_column(column, program, weights, {"x": np.empty(0, object)}, 0).shape[0] == 0


def test_dense_tolerance_does_not_vanish_near_zero() -> None:
    want = np.array([1e-9, 1.0, 2.0, np.nan, np.inf], F32)
    allowed = np.asarray(allowed_of_dense(want, 1e-5))
    assert allowed[0] == pytest.approx(1e-5) and allowed[2] == pytest.approx(2e-5)
    assert np.isfinite(allowed).all()
    assert allowed_of_dense(np.array([1, 2]), 1e-5) == 0.0
    clipped = np.array([0.0, 0.0, 0.0, 0.0, 1e-6, 0.5], F32)  # behind a relu
    assert np.asarray(allowed_of_dense(clipped, 1e-5)).min() > 1e-6


def test_an_infinite_tolerance_hides_no_other_element() -> None:
    found = difference(np.array([np.inf, 2.0], F32), np.array([1.0, 1.0], F32), np.array([np.inf, 0.5]))
    assert (found.outside, found.row) == (1, 1) and found.ratio == 2.0


def test_rows_that_may_overflow_are_found() -> None:
    column, split, _ = _split_column("sum")
    program = replace(split, inputs=(*split.inputs, Input("d", "float32", (symbol("B"), 2))))
    feed = {"d": np.array([[0, 1], [3e38, 0], [np.inf, 0], [np.nan, -1e20]], F32)}
    assert overflowing(program, frozenset({"d"}), feed, 4).tolist() == [False, True, False, True]
    assert column.name == "x"


def test_weights_that_may_overflow_by_the_order_of_their_sum() -> None:
    counts, rows = np.array([2, 2, 1, 3]), np.array([0, 0, 1, 1, 2, 3, 3, 3])
    factors = np.array([3e38, -3e38, np.inf, 1.0, 3e38, 1e38, np.nan, 1e38])
    assert _may_overflow(counts, factors, rows).tolist() == [True, False, False, False]


def test_the_rounding_of_a_dense_rest_is_that_of_its_longest_way() -> None:
    def line(output: str, op: str, *args: object) -> Instruction:
        return Instruction(output, f"aten.{op}", args)

    program = _split_column("sum")[1]
    short = line("a", "tanh.default", Ref("columns"))
    beside = line("b", "exp.default", Ref("columns"))
    moved = line("c", "reshape.default", Ref("a"), (-1,))
    added = line("d", "sum.dim_IntList", Ref("c"), (0,), False)
    assert dense_rtol(replace(program, dense=())) == 4 * EPS
    assert dense_rtol(replace(program, dense=(short, beside, moved))) == 8 * EPS
    widest = max(b.width for b in program.buffers) ** 0.5
    assert dense_rtol(replace(program, dense=(short, beside, moved, added))) == pytest.approx(4 * EPS * (2 + widest))


def test_rows_that_add_up_many_elements_widen_what_dense_values_may_differ_by() -> None:
    program, feed = _split_column("mean")[1], {"x": np.array([b"a", b"a;a;a"], object)}
    assert added_rtol(program, feed, {"b": 2}) == pytest.approx(4 * EPS * 3**0.5)
    assert added_rtol(program, {"x": np.array([b"a", b""], object)}, {"b": 2}) == 0.0
    assert added_rtol(_split_column("max")[1], feed, {"b": 2}) == 0.0


@pytest.mark.parametrize(
    ("step", "values", "wanted"),
    [
        ("round", [0.4999, 0.5, 2.0, -1.25], [0.0001, 0.0, 0.5, 0.25]),
        ("floor", [0.999, 3.0, -0.5], [0.001, 0.0, 0.5]),
        ("cast", [0.999, 3.0], [0.001, 0.0]),
        ("sign", [-0.25, 0.0], [0.25, 0.0]),
        ("argmax", [1.0, 3.0, 2.5], [0.5, 0.5, 0.5]),
    ],
)
def test_margin_is_the_distance_from_the_step(step: str, values: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(margin(step, np.array(values)), wanted, atol=1e-12)


def test_nan_is_never_near_a_step() -> None:
    assert margin("round", np.array([np.nan]))[0] == np.inf
