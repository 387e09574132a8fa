from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

from colonnade.backends.dense import DensePlan
from colonnade.core import dims
from colonnade.errors import GraphError
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref

B = dims.symbol("B")


def plan_program(
    *lines: Instruction, outputs: tuple[str, ...] = ("y",), params: dict[str, torch.Tensor] | None = None
) -> Program:
    return Program(
        (Input("x", "float32", (B, 4)),),
        (),
        (),
        (Buffer("z", B, 6),),
        lines,
        tuple(Output(name, Ref(name), "float32", (B,)) for name in outputs),
        tuple((n, str(t.dtype).removeprefix("torch."), tuple(t.shape)) for n, t in (params or {}).items()),
    )


def plan(
    *lines: Instruction, outputs: tuple[str, ...] = ("y",), params: dict[str, torch.Tensor] | None = None
) -> DensePlan:
    return DensePlan(plan_program(*lines, outputs=outputs, params=params), params or {})


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


FACTORIES = (
    Instruction("c", "aten.full.default", ((B, 4), 2.0)),
    Instruction("k", "aten.arange.default", (4,), (("dtype", "float32"),)),
    Instruction("o", "aten.ones_like.default", (Ref("x"),)),
    Instruction("h", "aten.mm.default", (Ref("x"), Ref("w"))),
    Instruction("m", "aten._to_copy.default", (Ref("h"),), (("device", "cpu"), ("dtype", "float64"))),
    Instruction("n", "aten.to.device", (Ref("m"), "cpu", "float32")),
    Instruction("e", "aten.eye.default", (4,), (("device", "cpu"),)),
    Instruction("s", "aten.scalar_tensor.default", (0.5,)),
    *(
        Instruction(f"y{i}", "aten.add.Tensor", (Ref(f"y{i - 1}" if i else "n"), Ref(name)))
        for i, name in enumerate(("c", "k", "o", "s"))
    ),
    Instruction("p", "aten.mm.default", (Ref("y3"), Ref("e"))),
    Instruction("y", "colonnade.place", (Ref("p"), Ref("z"), 1)),
)


def on(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The answer there and the one on the host."""
    w = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
    x, z = torch.ones(3, 4), torch.zeros(3, 6)
    answers = []
    for where in (device, "cpu"):
        program = plan_program(*FACTORIES, params={"w": w})
        made = DensePlan(program, {"w": w}, where)
        assert str(made.device) == where and not made.synchronises and not made.host_only
        answers.append(made.run({"x": x.to(where), "z": z.clone().to(where)}, {"B": 3})["y"])
    return answers[0], answers[1]


def test_everything_lands_on_the_plans_device() -> None:
    got, want = on("meta")
    assert got.device.type == "meta" and got.shape == want.shape
    w = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(want[:, 1:5], torch.ones(3, 4) @ w + 2.0 + torch.arange(4.0) + 1.0 + 0.5)


@pytest.mark.gpu
def test_a_cuda_device_gives_the_hosts_answer() -> None:
    got, want = on("cuda")
    assert got.device.type == "cuda"
    torch.testing.assert_close(got.cpu(), want)


def test_what_waits_for_data_on_the_host_is_told() -> None:
    made = plan(
        Instruction("check", "colonnade.require", (B, B, "node 'n'")),
        Instruction("at", "aten.nonzero.default", (Ref("x"),)),
        Instruction("v", "aten.sum.default", (Ref("x"),)),
        Instruction("number", "aten._local_scalar_dense.default", (Ref("v"),)),
        Instruction("whether", "aten.is_nonzero.default", (Ref("v"),)),
        Instruction("f", "aten.full.default", ((4,), Ref("v"))),
        Instruction("r", "aten.reshape.default", (Ref("x"), (Ref("v"), 4))),
        Instruction("halves", "aten.split.Tensor", (Ref("x"), 2, 1)),
        Instruction("half", "colonnade.item", (Ref("halves"), 0)),
        Instruction("y", "aten.relu.default", (Ref("half"),)),
    )
    assert made.synchronises == (
        "check = colonnade.require: compares sizes on the host",
        "at = aten.nonzero.default: its result or its shape depends on data",
        "number = aten._local_scalar_dense.default: its result or its shape depends on data",
        "whether = aten.is_nonzero.default: gives a number to the host",
        "f = aten.full.default: takes a number from a tensor",
        "r = aten.reshape.default: takes a number from a tensor",
    )


def test_strings_stay_on_the_host_and_are_told() -> None:
    program = replace(
        plan_program(Instruction("a", "aten.alias.default", (Ref("s"),)), outputs=("x",)),
        inputs=(Input("x", "float32", (B, 4)), Input("s", "string", (B,)), Input("t", "string", (B,))),
    )
    program = replace(program, outputs=(*program.outputs, Output("words", Ref("t"), "string", (B,))))
    made = DensePlan(program, {}, "meta")
    assert made.host_only == (
        "a = aten.alias.default: reads the strings of input 's'",
        "output 'words': is the strings of input 't'",
    )


def test_what_is_computed_of_constants_alone_is_computed_once() -> None:
    torch.manual_seed(2)
    params = {"variance": torch.rand(4), "scale": torch.randn(4), "w": torch.randn(4, 4)}
    lines = (
        Instruction("e", "aten.add.Tensor", (Ref("variance"), 1e-3)),
        Instruction("r", "aten.rsqrt.default", (Ref("e"),)),
        Instruction("m", "aten.mul.Tensor", (Ref("r"), Ref("scale"))),
        Instruction("wt", "aten.t.default", (Ref("w"),)),
        Instruction("k", "aten.full.default", ((4,), 0.5)),
        Instruction("halves", "aten.split.Tensor", (Ref("m"), 2)),
        Instruction("half", "colonnade.item", (Ref("halves"), 1)),
        Instruction("both", "aten.cat.default", ((Ref("half"), Ref("half")),)),
        Instruction("a", "aten.mul.Tensor", (Ref("x"), Ref("m"))),
        Instruction("b", "aten.mm.default", (Ref("a"), Ref("wt"))),
        Instruction("c", "aten.add.Tensor", (Ref("b"), Ref("both"))),
        Instruction("y", "aten.add.Tensor", (Ref("c"), Ref("k"))),
    )
    before = {name: value.clone() for name, value in params.items()}
    made = plan(*lines, outputs=("y", "m", "k"), params=params)
    assert [step.where.partition(" ")[0] for step in made._steps] == ["a", "b", "c", "y"]
    m = torch.rsqrt(params["variance"] + 1e-3) * params["scale"]
    for seed in range(2):
        got, x, _ = run(made, 3, seed)
        want = torch.mm(x * m, params["w"].t()) + torch.cat((m[2:], m[2:])) + 0.5
        assert torch.equal(got["y"], want) and torch.equal(got["m"], m)
    assert all(torch.equal(params[name], value) for name, value in before.items())
    addresses = {t.data_ptr() for t in made.constants}
    assert {got["m"].data_ptr(), got["k"].data_ptr(), params["w"].data_ptr()} <= addresses
    assert params["scale"].data_ptr() not in addresses  # nothing reads it any more


def test_what_is_no_constant_is_computed_for_each_request() -> None:
    made = plan(
        Instruction("wide", "aten.expand.default", (Ref("c"), (B, 4))),
        Instruction("random", "aten.bernoulli.default", (Ref("c"),)),
        Instruction("h", "aten.mul.Tensor", (Ref("c"), 2.0)),
        Instruction("written", "aten.add_.Tensor", (Ref("h"), Ref("x"))),
        Instruction("much", "aten.repeat.default", (Ref("c"), (1 << 17, 1))),
        Instruction("few", "aten.slice.Tensor", (Ref("much"), 0, 0, 1)),
        Instruction("bad", "colonnade.guard", (Ref("false"), Ref("false"), "message: no")),
        Instruction("y", "aten.sub.Tensor", (Ref("written"), Ref("few"))),
        params={"c": torch.ones(1, 4), "false": torch.tensor([False])},
        outputs=("y",),
    )
    stay = ("wide", "random", "h", "written", "much", "few", "bad", "y")
    assert tuple(step.where.partition(" ")[0] for step in made._steps) == stay
    with pytest.raises(GraphError, match="an assertion of the model"):
        run(made, 1)


def test_a_constant_that_an_activation_overwrites_is_made_for_each_request() -> None:
    made = plan(
        Instruction("h", "aten.linear.default", (Ref("w"), Ref("w"))),
        Instruction("i", "aten.relu_.default", (Ref("h"),)),
        Instruction("y", "aten.add.Tensor", (Ref("i"), Ref("x"))),
        params={"w": torch.tensor([[1.0, -1.0, 0.0, 2.0]]).t() - 1.0},
    )
    for seed in range(2):
        got, x, _ = run(made, 4, seed)
        w = torch.tensor([[1.0, -1.0, 0.0, 2.0]]).t() - 1.0
        assert torch.equal(got["y"], torch.relu(w @ w.t()) + x)
