from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from colonnade.backends.dense import DensePlan
from colonnade.core import dims
from colonnade.errors import GraphError
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref

B = dims.symbol("B")


def plan(
    *lines: Instruction, outputs: tuple[str, ...] = ("y",), params: dict[str, torch.Tensor] | None = None
) -> DensePlan:
    params = params or {}
    program = Program(
        (Input("x", "float32", (B, 4)),),
        (),
        (),
        (Buffer("z", B, 6),),
        lines,
        tuple(Output(name, Ref(name), "float32", (B,)) for name in outputs),
        tuple((n, str(t.dtype).removeprefix("torch."), tuple(t.shape)) for n, t in params.items()),
    )
    return DensePlan(program, params)


def run(made: DensePlan, rows: int = 3, seed: int = 0) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    x, z = torch.randn(rows, 4), torch.randn(rows, 6)
    return made.run({"x": x, "z": z}, {"B": rows}), x, z


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_refs_literals_dims_lists_dtypes_and_keywords(rows: int) -> None:
    torch.manual_seed(1)
    w, b = torch.randn(10, 3), torch.randn(3)
    made = plan(
        Instruction("cat", "aten.cat.default", ((Ref("x"), Ref("z")), 1)),
        Instruction("h", "aten.addmm.default", (Ref("b"), Ref("cat"), Ref("w"))),
        Instruction("r", "aten.relu.default", (Ref("h"),)),
        Instruction("flat", "aten.reshape.default", (Ref("r"), (dims.mul(3, B),))),
        Instruction("back", "aten.view.default", (Ref("flat"), (B, 3))),
        Instruction("wide", "aten.to.dtype", (Ref("back"), "float64")),
        Instruction("s", "aten.sum.dim_IntList", (Ref("wide"), (1,)), (("dtype", "float32"),)),
        Instruction("g", "aten.gelu.default", (Ref("s"),), (("approximate", "tanh"),)),
        Instruction("y", "aten.add.Tensor", (Ref("g"), 2.5), (("alpha", 2),)),
        outputs=("y", "cat", "x"),
        params={"w": w, "b": b},
    )
    got, x, z = run(made, rows)
    hidden = torch.relu(torch.addmm(b, torch.cat((x, z), 1), w))
    want = torch.nn.functional.gelu(hidden.double().sum(1, dtype=torch.float32), approximate="tanh") + 5.0
    assert torch.equal(got["y"], want)
    assert torch.equal(got["cat"], torch.cat((x, z), 1))
    assert got["x"] is x


def test_place_and_item() -> None:
    made = plan(
        Instruction("halves", "aten.split.Tensor", (Ref("x"), 2, 1)),
        Instruction("right", "colonnade.item", (Ref("halves"), 1)),
        Instruction("y", "colonnade.place", (Ref("right"), Ref("z"), 3)),
    )
    torch.manual_seed(0)
    x, z = torch.randn(2, 4), torch.zeros(2, 6)
    y = made.run({"x": x, "z": z}, {"B": 2})["y"]
    assert y is z
    assert torch.equal(z[:, 3:5], x[:, 2:]) and not z[:, :3].any() and not z[:, 5:].any()


def test_a_parameter_survives_its_last_use() -> None:
    w = torch.eye(4)
    made = plan(
        Instruction("a", "aten.mm.default", (Ref("x"), Ref("w"))),
        Instruction("y", "aten.neg.default", (Ref("a"),)),
        params={"w": w},
    )
    for seed in range(2):
        got, x, _ = run(made, 3, seed)
        assert torch.equal(got["y"], -x)


def test_values_are_dropped_after_their_last_use() -> None:
    alive: list[int] = []
    made = plan(
        *(Instruction(f"v{i}", "aten.add.Tensor", (Ref("x" if i == 0 else f"v{i - 1}"), 1.0)) for i in range(5)),
        Instruction("y", "aten.neg.default", (Ref("v4"),)),
    )
    alive = [slot for step in made._steps for slot in step.dead]
    assert len(alive) == len(set(alive)) == 6  # x and v0 .. v4, each once


def test_every_unknown_op_and_value_is_listed() -> None:
    with pytest.raises(GraphError) as caught:
        plan(
            Instruction("a", "aten.no_such_op.default", (Ref("x"),)),
            Instruction("b", "aten.relu.no_such_overload", (Ref("x"),)),
            Instruction("c", "colonnade.nothing", ()),
            Instruction("d", "aten.relu.default", (Ref("later"),)),
        )
    assert caught.value.got.splitlines() == [
        "a: no op 'aten.no_such_op.default'",
        "b: no op 'aten.relu.no_such_overload'",
        "c: no op 'colonnade.nothing'",
        "d = aten.relu.default: no value 'later'",
        "output 'y': no value 'y'",
    ]


def test_concurrent_runs_share_nothing() -> None:
    made = plan(
        Instruction("a", "aten.mul.Tensor", (Ref("x"), 3.0)),
        Instruction("y", "aten.reshape.default", (Ref("a"), (dims.mul(4, B),))),
    )
    wrong: list[int] = []

    def call(rows: int) -> None:
        x = torch.full((rows, 4), float(rows))
        for _ in range(200):
            y = made.run({"x": x, "z": x}, {"B": rows})["y"]
            if y.shape != (4 * rows,) or not bool((y == 3 * rows).all()):
                wrong.append(rows)

    callers = [threading.Thread(target=call, args=(rows,)) for rows in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
