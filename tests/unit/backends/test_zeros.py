"""Products that skip the zeros of marks, against torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.backends.dense import DensePlan
from colonnade.backends.tape import words as w
from colonnade.backends.tape.lower import taped
from colonnade.backends.tape.tape import TapeCall
from colonnade.backends.tape.zeros import complement, mostly_zero
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import PLACE, Buffer, Input, Instruction, Output, Program, Ref
from colonnade.ir.table import Table

B = dims.symbol("B")
MARKS, COUNTS, FLOATS = (3, 23), (30, 70), (0, 3)
WIDTH = 80
ROWS = (0, 1, 2, 3, 6, 7, 12, 31, 130, 260)
TABLES = {
    "marks": np.eye(20, dtype=np.float32),
    "counts": np.concatenate([np.eye(40), np.zeros((1, 40))]).astype(np.float32),
    "floats": np.ones((5, 3), np.float32),
}


def line(output: str, op: str, *args: Any) -> Instruction:
    return Instruction(output, op if op == PLACE else f"aten.{op}", args)


def program(outer: int = 32, ids: int = 1) -> Program:
    """A buffer of floats, marks, what is placed, and counts that are cut and placed into it."""
    inputs = (Input("i", "int64", (B, 1)), Input("many", "int64", (B, ids)))
    tables = tuple(Table(name, *rows.shape) for name, rows in TABLES.items())
    columns = (
        Column("f", Field("i"), "floats", "sum", slots=(Slot("x", 0, 3),)),
        Column("m", Field("i"), "marks", "sum", slots=(Slot("x", 3, 20),)),
        Column("c", Field("many"), "counts", "sum", slots=(Slot("y", 2, 40),)),
    )
    dense = (
        line("part", "slice.Tensor", Ref("y"), 1, 2, 42),
        line("cut", "minimum.default", Ref("part"), Ref("one")),
        line("z", PLACE, Ref("cut"), Ref("x"), 30),
        line("h", "linear.default", Ref("z"), Ref("m"), Ref("b")),
        line("r", "relu_.default", Ref("h")),
        line("s", "linear.default", Ref("r"), Ref("last")),
    )
    params = tuple((n, "float32", tuple(t.shape)) for n, t in weights(outer).items())
    outputs = (Output("s", Ref("s"), "float32", (B, 4)), Output("r", Ref("r"), "float32", (B, outer)))
    buffers = (Buffer("x", B, WIDTH), Buffer("y", B, 44))
    return Program(inputs, tables, columns, buffers, dense, outputs, params=params)


def weights(outer: int = 32) -> dict[str, torch.Tensor]:
    torch.manual_seed(outer)
    found = {"m": torch.randn(outer, WIDTH), "b": torch.randn(outer), "last": torch.randn(4, outer)}
    return {**found, "one": torch.tensor(1.0)}


def filled(rows: int, kind: str) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(rows)
    x, y = rng.standard_normal((rows, WIDTH)).astype(np.float32), np.zeros((rows, 44), np.float32)
    if kind != "full":
        x[:, slice(*MARKS)] = np.eye(20)[rng.integers(0, 20, rows)]
        y[:, 2:42] = rng.multinomial(5, np.full(40, 1 / 40), rows)
        y[rows // 2 :] = 0
    else:
        y[:] = rng.standard_normal((rows, 44))
    if kind == "special" and rows:
        x[rng.integers(0, rows, 9), rng.integers(3, 23, 9)] = rng.choice([np.nan, np.inf, -0.0, 1e-42, -2.5], 9)
    return {"x": torch.from_numpy(x), "y": torch.from_numpy(y)}


def codes(plan: DensePlan) -> set[int]:
    found: set[int] = set()
    for op in plan._ops.values():
        if isinstance(op, TapeCall):
            found |= set(op.tape.steps.reshape(-1, w.STEP_BYTES // 8)[:, w.CODE // 8].tolist())
    return found


def answers(plan: DensePlan, given: dict[str, torch.Tensor], rows: int) -> dict[str, torch.Tensor]:
    found = plan.run({name: given[name].clone() for name in plan.sources}, {"B": rows})
    return {name: torch.as_tensor(value) for name, value in found.items()}


@pytest.mark.parametrize("kind", ["marks", "full", "special"])
@pytest.mark.parametrize("outer", [16, 32, 144])
def test_answers_are_those_of_all_multiplications(kind: str, outer: int) -> None:
    made, params = program(outer), weights(outer)
    plain, short = DensePlan(made, params), taped(made, params, 2, TABLES)
    assert w.GATHER in codes(short)
    for rows in ROWS:
        given = filled(rows, kind)
        got, want = answers(short, given, rows), answers(plain, given, rows)
        for name in want:
            torch.testing.assert_close(got[name], want[name], rtol=1e-4, atol=1e-4, equal_nan=True)
        if rows > 7:
            few = answers(short, {k: v[:5] for k, v in given.items()}, 5)
            np.testing.assert_array_equal(few["r"], got["r"][:5])


def test_ranges_are_followed_to_the_product() -> None:
    found = mostly_zero(program(), TABLES)
    assert found["x"] == (MARKS,)
    assert found["part"] == found["cut"] == ((0, 40),)
    assert found["z"] == (MARKS, COUNTS)
    assert not found.keys() & {"h", "r", "s"}


def test_what_is_no_mark() -> None:
    two = TABLES["marks"].copy()
    two[4, 5] = 1
    assert mostly_zero(program(), {**TABLES, "marks": two})["z"] == (COUNTS,)
    assert mostly_zero(program(ids=10), TABLES)["z"] == (MARKS, COUNTS)
    assert mostly_zero(program(ids=11), TABLES)["z"] == (MARKS,)


def test_slices_from_the_end_and_what_is_placed_over_marks_say_nothing() -> None:
    made = program()
    part, cut, z, *rest = made.dense
    from_the_end = line("part", "slice.Tensor", Ref("y"), 1, -42, 42)
    assert not mostly_zero(replace(made, dense=(from_the_end, cut, z, *rest)), TABLES).keys() & {"part", "cut"}
    over = line("z", PLACE, Ref("cut"), Ref("x"), 10)
    placed, params = replace(made, dense=(part, cut, over, *rest)), weights()
    assert "z" not in mostly_zero(placed, TABLES)
    given = filled(31, "marks")
    got, want = (answers(plan, given, 31) for plan in (taped(placed, params, 1, TABLES), DensePlan(placed, params)))
    torch.testing.assert_close(got["r"], want["r"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("places", [[5], [5, 30]])
def test_zeros_times_what_is_not_finite_are_multiplied(value: float, places: list[int]) -> None:
    made, params = program(), weights()
    for place in places:
        params["m"][7, place] = value
    plain, short = DensePlan(made, params), taped(made, params, 1, TABLES)
    assert (w.GATHER in codes(short)) == (len(places) == 1)
    given = filled(31, "marks")
    got, want = answers(short, given, 31), answers(plain, given, 31)
    assert bool(want["s"].isnan().any())
    torch.testing.assert_close(got["r"], want["r"], rtol=1e-4, atol=1e-4, equal_nan=True)


def test_a_product_of_an_odd_width_is_whole() -> None:
    made, params = program(33), weights(33)
    short = taped(made, params, 1, TABLES)
    assert w.GATHER not in codes(short)
    given = filled(12, "marks")
    got, want = answers(short, given, 12), answers(DensePlan(made, params), given, 12)
    torch.testing.assert_close(got["r"], want["r"], rtol=1e-4, atol=1e-4)


def test_complement() -> None:
    assert complement(((0, 3), (3, 8), (10, 12)), 12) == ((8, 10),)
    assert complement((), 4) == ((0, 4),)
    assert complement(((0, 4),), 4) == ()
