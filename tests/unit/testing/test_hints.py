"""What columns say of inputs, and of places of a matrix, and the requests that are drawn of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.executable import Executable
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.add_position import AddPosition
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.cast import Cast
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.replace_outside import ReplaceOutside
from colonnade.ops.vocabulary import Vocabulary
from colonnade.ops.wrap_negative import WrapNegative
from colonnade.testing.hints import hints_from
from colonnade.testing.points import columns_only
from colonnade.testing.requests import corner_rows, make_request

B = dims.symbol("B")
ROWS = 265


def column(name: str, ids: Expr, *filters: Expr, proven: bool = False, width: int = 2) -> Column:
    return Column(name, ids, "t", "sum", filters, ids_proven=proven, slots=(Slot("out", 0, width),))


def program(inputs: tuple[Input, ...], *columns: Column) -> Program:
    placed = tuple(replace(c, slots=(Slot("out", 2 * i, 2),)) for i, c in enumerate(columns))
    buffers = (Buffer("out", B, 2 * len(columns)),)
    return columns_only(Program(inputs, (Table("t", ROWS, 2, "float32"),), placed, buffers, (), ()))


def place(name: str, start: int, stop: int, dtype: str = "int64") -> Input:
    return Input(name, dtype, (B, stop - start), of="x", places=(start, stop))


X = Input("x", "int64", (B, 5))


def answers(model: Program, kind: str, rows: int) -> None:
    """Every id of the request is a row of its table."""
    table = np.zeros((ROWS, 2), np.float32)
    Executable(model, Weights({"t": table}, {}, {}), ReferenceBackend())(make_request(model, kind, rows).feed)


@pytest.mark.parametrize(
    ("ids", "low", "high"),
    [
        (lambda x: x, 0, ROWS),
        (lambda x: Apply(WrapNegative(ROWS), x), -ROWS, ROWS),
        (lambda x: Apply(WrapNegative(ROWS + 1), x), 0, ROWS),
        (lambda x: Apply(WrapNegative(9), x), -9, ROWS),
        (lambda x: Apply(AddPosition(65, 5), x), 0, 5),
        (lambda x: Apply(AddPosition(-65, 5), x), 260, ROWS),
        (lambda x: Apply(Cast("int64"), Apply(Cast("float32"), x)), 0, ROWS),
    ],
)
def test_ids_that_are_moved_have_a_range(ids: object, low: int, high: int) -> None:
    assert callable(ids)
    model = program((X,), column("c", ids(Field("x"))))
    assert hints_from(model).ids == {"x": (low, high)}
    for kind in ("ordinary", "corner", "missing"):
        answers(model, kind, 40)
    assert set(make_request(model, "ordinary", 400).feed["x"].flat) <= set(range(max(low, 0), high))
    assert {low, high - 1} <= set(make_request(model, "corner", corner_rows(model)).feed["x"].flat)


def test_hashed_ids_have_no_range() -> None:
    hints = hints_from(program((X,), column("c", Apply(Mod(ROWS), Field("x")), proven=True)))
    assert not hints.ids and not hints.usual


def test_proven_ids_are_mostly_rows_and_corners_are_any() -> None:
    kept = Apply(AtLeast(0), Field("x")), Apply(AtMost(ROWS - 1), Field("x"))
    model = program((X,), column("c", Field("x"), *kept, proven=True))
    assert not hints_from(model).ids and hints_from(model).usual == {"x": (0, ROWS)}
    assert set(make_request(model, "ordinary", 400).feed["x"].flat) <= set(range(ROWS))
    assert {-1, ROWS, -(2**63)} <= set(make_request(model, "corner", corner_rows(model)).feed["x"].flat)
    replaced = program((X,), column("c", Apply(ReplaceOutside(3, 8, 0), Field("x")), proven=True))
    assert hints_from(replaced).usual == {"x": (3, 9)}


def test_a_value_that_a_filter_drops_is_missing_where_every_column_drops_it() -> None:
    dropped = column("c", Field("x"), Apply(NotEqual(-1), Field("x")))
    model = program((X,), dropped)
    assert hints_from(model).missing == {"x": -1}
    assert (make_request(model, "missing", 3).feed["x"] == -1).all()
    assert -1 in make_request(model, "corner", corner_rows(model)).feed["x"]
    answers(model, "corner", 50)
    both = program((X,), dropped, column("d", Field("x")))
    assert not hints_from(both).missing
    answers(both, "corner", 50)


def test_numbers_of_a_vocabulary_are_drawn() -> None:
    keys, values = Const(np.array([70_000, 80_000])), Const(np.array([1, 2]))
    known = program((X,), column("c", Apply(Vocabulary(keys, values, 0), Field("x")), proven=True))
    assert set(make_request(known, "ordinary", 90).feed["x"].flat) == {70_000, 80_000}
    assert {70_000, -1} <= set(make_request(known, "corner", corner_rows(known)).feed["x"].flat)
    refused = program((X,), column("c", Apply(Vocabulary(keys, values, ROWS), Field("x"))))
    for kind in ("ordinary", "corner", "missing"):
        assert set(make_request(refused, kind, 90).feed["x"].flat) == {70_000, 80_000}
        answers(refused, kind, 90)


def test_strings_that_a_vocabulary_refuses_are_no_corners() -> None:
    words = Const(np.array([b"a", b"b"], object))
    ids = Apply(Vocabulary(words, Const(np.array([1, 2])), ROWS), Field("s"))
    text = Input("s", "string", (B, 1))
    model = program((text,), column("c", ids))
    for kind in ("ordinary", "corner", "missing"):
        answers(model, kind, 30)
    masked = program((text,), column("c", ids, Apply(NotEqual(b""), Field("s"))))
    assert (make_request(masked, "missing", 2).feed["s"] == b"").all()
    assert set(make_request(masked, "corner", 60).feed["s"].flat) == {b"a", b"b", b""}


def test_weights_have_no_denormal_products() -> None:
    w = Input("w", "float32", (B, 5))
    column_of = replace(column("c", Field("x")), weights=Field("w"))
    corner = make_request(program((X, w), column_of), "corner", 200).feed["w"]
    assert (corner == 0).any() and not ((corner != 0) & (np.abs(corner) < 1e-18)).any()


# -- places of a matrix ------------------------------------------------------------------------------------------------


def test_places_of_a_matrix_are_drawn_by_what_reads_them() -> None:
    small, rest = place("small", 1, 2), place("rest", 3, 5)
    model = program(
        (X, small, rest),
        column("a", Field("small"), Apply(AtMost(9), Field("small"))),
        column("b", Apply(WrapNegative(ROWS), Field("rest"))),
    )
    hints = hints_from(model)
    assert hints.places == {"x": {"x[1]": (1,), "x[3, 4]": (3, 4)}}
    assert hints.ids == {"x[1]": (0, ROWS), "x[3, 4]": (-ROWS, ROWS)}
    found = make_request(model, "ordinary", 500).feed["x"]
    assert found.shape == (500, 5) and (found[:, [0, 2]] > ROWS).any()
    assert (found[:, [1, 3, 4]] < ROWS).all() and found[:, 1].min() >= 0
    corner = make_request(model, "corner", corner_rows(model)).feed["x"]
    assert {0, ROWS - 1} <= set(corner[:, 1]) and {-ROWS, -1, ROWS - 1} <= set(corner[:, 3:].flat)
    for kind in ("ordinary", "corner", "missing"):
        answers(model, kind, 60)


def test_a_place_that_several_fields_have_fits_all_of_them() -> None:
    inputs = X, place("a", 0, 3), place("b", 2, 5)
    added = Apply(AddPosition(88, 3), Field("a"))
    model = program(inputs, column("a", added), column("b", Apply(WrapNegative(20), Field("b"))))
    hints = hints_from(model)
    assert hints.places["x"] == {"x[0, 1]": (0, 1), "x[2]": (2,), "x[3, 4]": (3, 4)}
    assert hints.ids == {"x[0, 1]": (0, 89), "x[2]": (0, 89), "x[3, 4]": (-20, ROWS)}
    for kind in ("ordinary", "corner", "missing"):
        answers(model, kind, 60)


def test_who_reads_the_whole_matrix_has_a_say_in_its_places() -> None:
    model = program((X, place("a", 4, 5)), column("x", Field("x")), column("a", Apply(AddPosition(0, 1), Field("a"))))
    assert hints_from(model).ids == {"x": (0, ROWS), "x[4]": (0, ROWS)}
    answers(model, "corner", 30)


def test_corners_of_places_that_columns_read_leave_the_others_dense() -> None:
    x = Input("x", "float32", (B, 3))
    bucket = Apply(Cast("int64"), Apply(Bucketize(Const(np.array([0.0, 7.0], np.float32))), Field("a")))
    model = program((x, place("a", 0, 1, "float32")), column("a", bucket, proven=True))
    rows = corner_rows(model)
    corner = make_request(model, "corner", rows).feed["x"]
    assert {0.0, 7.0} <= set(corner[:, 0]) and 3 * np.isfinite(corner[:, 1:]).all(1).sum() > rows
    assert np.isnan(make_request(model, "missing", 3).feed["x"][:, 0]).all()
    ordinary = make_request(model, "ordinary", 200).feed["x"]
    assert ordinary[:, 0].max() > 6 and np.abs(ordinary[:, 1:]).max() <= 1
