"""Which columns the gpu refuses to write."""

from __future__ import annotations

import pytest

from colonnade.backends.backend import layouts
from colonnade.backends.gpu.units import Unit, units_of
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.errors import ShapeError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program
from colonnade.ir.table import Table

B = dims.symbol("B")


def units(width: int, slot: int, table: str | None, pooling: str) -> tuple[Unit, ...]:
    columns = tuple(Column(n, Field("a"), table, pooling, slots=(Slot("buf", 0, slot),)) for n in ("c", "d"))
    program = Program(
        (Input("a", "int64", (B, width)),), (Table("t", 10, 8),), columns, (Buffer("buf", B, slot),), (), ()
    )
    (layout,) = layouts(program)
    return units_of(columns, program, layout)


@pytest.mark.parametrize(
    ("width", "slot", "table", "pooling"), [(3, 3, None, "none"), (3, 24, "t", "none"), (3, 8, "t", "sum")]
)
def test_slots_that_fit(width: int, slot: int, table: str | None, pooling: str) -> None:
    assert units(width, slot, table, pooling)


@pytest.mark.parametrize(
    ("width", "slot", "table", "pooling"),
    [(3, 1, None, "none"), (3, 8, "t", "none"), (1, 16, "t", "none"), (3, 24, "t", "sum")],
)
def test_slots_of_another_width_are_all_named(width: int, slot: int, table: str | None, pooling: str) -> None:
    with pytest.raises(ShapeError) as caught:
        units(width, slot, table, pooling)
    assert all(f"column {name!r}: {slot} in buffer" in caught.value.got for name in ("c", "d"))
