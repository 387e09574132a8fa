"""How programs are given to units, and batches that a launch cannot hold."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

from colonnade.backends.backend import layouts
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.gpu.schedule import Schedule
from colonnade.core import dims
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import FeedError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.not_equal import NotEqual

B = dims.symbol("B")
NUMBERED = re.compile(r"[a-z][0-9]+")
"""Variables that are made while a structure is written."""


def schedule(width: int, pooling: str = "sum", filters: tuple[Expr, ...] = ()) -> Schedule:
    slot = Slot("buf", 0, 8 * width if pooling == "none" else 8)
    program = Program(
        (Input("ids", "int64", (B, width)),),
        (Table("t", 10, 8),),
        (Column("c", Field("ids"), "t", pooling, filters, slots=(slot,)),),
        (Buffer("buf", B, slot.width),),
        (),
        (),
    )
    weights = Weights({"t": np.zeros((10, 8), np.float32)}, {}, {})
    (layout,) = layouts(program)
    compiled = GpuBackend(interpret=True).compile(program, weights, layout, id_policy="error", threads=1)
    found: Schedule = compiled.schedule
    return found


@pytest.mark.parametrize(("width", "pooling"), [(1, "sum"), (4, "sum"), (5, "none")])
def test_elements_that_32_bits_do_not_count_are_refused(width: int, pooling: str) -> None:
    made = schedule(width, pooling)
    most = (2**31 - 128 - 1) // width
    assert made.numbers(most, 0)[-1] == made.plain[0].programs(most)
    with pytest.raises(FeedError) as caught:
        made.numbers(most + 1, 0)
    assert f"{most + 1:,} rows" in caught.value.got


def test_tiles_of_elements_are_counted_in_64_bits() -> None:
    made = schedule(100)
    assert made.numbers(2**28, 1000)[-1] == 1000
    with pytest.raises(FeedError):
        made.numbers(1, 2**31)


def test_no_variable_of_a_structure_takes_an_arguments_name() -> None:
    """However many variables there are: each filter has some, numbered from the first on."""
    made = schedule(3, filters=tuple(Apply(NotEqual(k), Field("ids")) for k in range(30)))
    functions = [f for f in ast.walk(ast.parse(made.text)) if isinstance(f, ast.FunctionDef)]
    variables = {n.id for f in functions for n in ast.walk(f) if isinstance(n, ast.Name) and NUMBERED.fullmatch(n.id)}
    assert len(variables) > 64 and not any(NUMBERED.fullmatch(name) for name in made.arguments)
