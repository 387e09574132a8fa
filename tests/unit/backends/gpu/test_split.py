"""What is left to the host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colonnade.backends.gpu.split import columns_only, reasons_for_host, split
from colonnade.errors import ShapeError
from colonnade.ir.program import REQUIRE, Instruction, Ref
from tests.unit.backends.gpu.runner_case import PROGRAM, B


def test_inputs_parameters_and_checks_of_sizes_stay_on_the_host() -> None:
    program, (check,) = split(PROGRAM)
    assert [o.name for o in program.outputs] == ["score", "positive"]
    assert all(line.op != REQUIRE for line in program.dense)
    check({"T": 3, "B": 1})
    with pytest.raises(ShapeError, match="node 'more'"):
        check({"T": 4, "B": 1})


def test_checks_of_data_stay_where_they_are() -> None:
    line = Instruction("sizes", REQUIRE, (Ref("buf"), B, "node"))
    program, checks = split(replace(PROGRAM, dense=(line,)))
    assert program.dense == (line,) and not checks


@pytest.mark.parametrize(
    ("line", "on_host"),
    [
        (Instruction("y", "aten.index_select.default", (Ref("buf"), 1, Ref("w"))), False),
        (Instruction("y", "aten.index_select.default", (Ref("w"), 0, Ref("buf"))), True),
        (Instruction("y", "aten.index.Tensor", (Ref("w"), [None, Ref("buf")])), True),
        (Instruction("y", "aten.floor_divide.default", (Ref("buf"), 3)), False),
        (Instruction("y", "aten.floor_divide.default", (Ref("buf"), Ref("w"))), False),
        (Instruction("y", "aten.floor_divide.default", (Ref("w"), Ref("buf"))), True),
        (Instruction("y", "aten.remainder.Tensor", (Ref("w"), Ref("buf"))), True),
        (Instruction("y", "aten.relu.default", (Ref("label"),)), True),
        (Instruction("y", "aten.relu.default", (Ref("buf"),)), False),
    ],
)
def test_reasons_for_the_host(line: Instruction, on_host: bool) -> None:
    found = reasons_for_host(replace(PROGRAM, dense=(line,), outputs=()))
    assert bool(found) == on_host and all(reason.startswith("y = ") for reason in found)


def test_columns_only() -> None:
    program = columns_only(PROGRAM)
    assert not program.dense and [o.name for o in program.outputs] == ["buf"]
