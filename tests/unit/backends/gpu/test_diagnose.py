"""Which ids were outside is found again on the host, which may not find none."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader
from colonnade.backends.gpu.diagnose import outside
from colonnade.core.expr import Field
from colonnade.errors import ConsistencyError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Output, Program, Ref
from colonnade.ir.table import Table
from tests.unit.backends.gpu.runner_case import B

PROGRAM = Program(
    inputs=(Input("ids", "int64", (B, 1)),),
    tables=(Table("t", 10, 4),),
    columns=(Column("c", Field("ids"), "t", "sum", slots=(Slot("buf", 0, 4),)),),
    buffers=(Buffer("buf", B, 4),),
    dense=(),
    outputs=(Output("buf", Ref("buf"), "float32", (B, 4)),),
)


def test_the_first_id_outside_or_that_there_is_none() -> None:
    plans = layouts(PROGRAM)
    reader = FeedReader(PROGRAM, plans)

    def found(ids: list[int]) -> str:
        (packed,) = reader.read({"ids": np.array(ids)[:, None]}).packed
        return outside(PROGRAM.columns, PROGRAM, plans[0], packed).got

    assert found([3, 10, 11]) == "id 10 in batch row 1"
    with pytest.raises(ConsistencyError, match="the host finds none") as caught:
        found([3, 9])
    assert caught.value.where == "column 'c'" and caught.value.got == "2 rows"
