"""Tapes against torch: the same dense rest with and without them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.backends.dense import DensePlan
from colonnade.backends.tape import lower, tape
from colonnade.backends.tape.lower import taped
from colonnade.core import dims
from colonnade.errors import GraphError, ShapeError
from colonnade.ir.program import Buffer, Input, Instruction, Output, Program, Ref

B, C = dims.symbol("B"), dims.symbol("C")
ROWS = (0, 1, 2, 3, 31, 32, 33, 70)
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-42, -3e38, 3e38, 0.5, -2.5)
INPUTS = (
    Input("x", "float32", (B, 5)),
    Input("y", "float32", (B, 5)),
    Input("one", "float32", (B, 1)),
    Input("v", "float32", (B,)),
    Input("i", "int64", (B, 1)),
    Input("j", "int32", (B, 3)),
    Input("other", "float32", (C, 5)),
)


def constants(seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {
        "w": torch.randn(5, 19),
        "wt": torch.randn(3, 5),
        "b": torch.randn(19),
        "bt": torch.randn(3),
        "row": torch.randn(1, 5),
        "five": torch.randn(5),
        "number": torch.tensor(1.7),
        "ids": torch.tensor([[3, 1]], dtype=torch.int32),
        "wide": torch.randn(200, 5),
        "large": torch.randn(210_000, 5),
    }


def program_of(lines: Sequence[Instruction], outputs: Sequence[str]) -> Program:
    return Program(
        INPUTS, (), (), (Buffer("z", B, 9),), tuple(lines), tuple(Output(o, Ref(o), "float32", (B,)) for o in outputs)
    )


def values(rows: int, seed: int = 0) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> torch.Tensor:
        made = rng.standard_normal(shape).astype(np.float32)
        special = rng.random(shape) < 0.1
        made[special] = rng.choice(SPECIAL, int(special.sum()))
        return torch.from_numpy(made)

    return {
        "x": floats(rows, 5),
        "y": floats(rows, 7)[:, 1:6],
        "one": floats(rows, 1),
        "v": floats(rows, 3)[:, 1],
        "i": torch.from_numpy(rng.integers(-(2**62), 2**62, (rows, 1))),
        "j": torch.from_numpy(rng.integers(-(2**31), 2**31 - 1, (rows, 3)).astype(np.int32)),
        "other": floats(4, 5),
        "z": torch.zeros(rows, 9),
    }


def answers(plan: DensePlan, given: Mapping[str, torch.Tensor], rows: int) -> dict[str, torch.Tensor]:
    values = {k: given[k].clone() if k == "z" else given[k] for k in plan.sources}
    return {k: torch.as_tensor(v) for k, v in plan.run(values, {"B": rows, "C": 4}).items()}


def ops_of(plan: DensePlan) -> list[str]:
    return [line.op for line in plan.rest[0]]


def check(lines: Sequence[Instruction], outputs: Sequence[str], *, exact: bool = True, on_tape: bool = True) -> None:
    program, params = program_of(lines, outputs), constants()
    plain, short = DensePlan(program, params), taped(program, params)
    assert ("colonnade.tape_0" in ops_of(short)) == on_tape
    for rows in ROWS:
        given = values(rows, seed=rows)
        want, got = answers(plain, given, rows), answers(short, given, rows)
        for name in outputs:
            assert (got[name].shape, got[name].dtype) == (want[name].shape, want[name].dtype)
            if exact:
                np.testing.assert_array_equal(got[name].numpy(), want[name].numpy())
                zeros = want[name] == 0
                assert torch.equal(torch.signbit(got[name].float())[zeros], torch.signbit(want[name].float())[zeros])
            else:
                torch.testing.assert_close(got[name], want[name], rtol=1e-5, atol=1e-6, equal_nan=True)


def line(output: str, op: str, *args: Any, **kwargs: Any) -> Instruction:
    name = op if op.startswith("colonnade.") else f"aten.{op}"
    return Instruction(output, name, args, tuple(kwargs.items()))


X, Y, ONE, V = Ref("x"), Ref("y"), Ref("one"), Ref("v")

MASKS = tuple(f"aten.{name}." for name in ("eq", "ne", "lt", "le", "gt", "ge"))
EXACT = {
    "arithmetic": (
        line("a", "add.Tensor", X, Y),
        line("b", "mul.Tensor", Ref("a"), ONE),
        line("c", "sub.Tensor", Ref("five"), Ref("b")),
        line("d", "div.Tensor", Ref("c"), Ref("number")),
        line("e", "div.Tensor", Ref("d"), Y),
        line("out", "add.Tensor", Ref("e"), 2.5),
    ),
    "vectors": (
        line("a", "sub.Tensor", V, Ref("number")),
        line("b", "div.Tensor", Ref("a"), 3),
        line("c", "unsqueeze.default", Ref("b"), -1),
        line("d", "squeeze.dims", ONE, (1,)),
        line("e", "add.Tensor", Ref("d"), V),
        line("f", "reshape.default", Ref("e"), (B, 1)),
        line("out", "cat.default", (Ref("f"), Ref("c"), X), -1),
    ),
    "views": (
        line("a", "slice.Tensor", X, 1, 1, 3),
        line("b", "slice.Tensor", Y, 1, 4, 99),
        line("c", "mul.Tensor", Ref("a"), Ref("b")),
        line("d", "relu.default", Ref("c")),
        line("e", "slice.Tensor", Ref("d"), 1, 1, 2),
        line("out", "squeeze.dims", Ref("e"), (1,)),
    ),
    "choices": (
        line("a", "ne.Tensor", X, X),
        line("b", "where.self", Ref("a"), Ref("number"), Y),
        line("c", "lt.Scalar", Ref("b"), 0.5),
        line("d", "where.self", Ref("c"), Ref("row"), ONE),
        line("e", "ge.Tensor", Ref("d"), Y),
        line("out", "where.self", Ref("e"), Ref("d"), Ref("b")),
    ),
    "comparisons": (
        *(
            line(f"a{k}", f"{name}.Tensor", X, Y if k % 2 else ONE)
            for k, name in enumerate(("eq", "ne", "lt", "le", "gt", "ge"))
        ),
        line("b", "where.self", Ref("a0"), X, Y),
        *(line("b" * (k + 1), "where.self", Ref(f"a{k}"), ONE, Ref("b" * k)) for k in range(1, 6)),
        line("out", "neg.default", Ref("bbbbbb")),
    ),
    "integers": (
        line("a", "_to_copy.default", Ref("i"), dtype="float32"),
        line("b", "_to_copy.default", Ref("j"), dtype="float32"),
        line("c", "sub.Tensor", Ref("b"), Ref("a")),
        line("d", "abs.default", Ref("c")),
        line("e", "mul.Tensor", Ref("d"), 0.37),
        line("out", "round.default", Ref("e")),
    ),
    "largest": (
        line("a", "mul.Tensor", X, Y),
        line("b", "argmax.default", Ref("a"), -1),
        line("c", "zeros_like.default", ONE),
        line("d", "ones_like.default", ONE),
        line("e", "cat.default", (Ref("c"), ONE, Ref("d")), 1),
        line("f", "unsqueeze.default", Ref("b"), -1),
        line("out", "argmax.default", Ref("e"), 1),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_steps_are_bit_equal_to_torch(name: str) -> None:
    lines = EXACT[name]
    check(lines, ("out",))
    inner = [x.output for x in lines if x.output != "out" and not x.op.startswith(MASKS)]
    check(lines, (*inner[-3:], "out"))


def test_heads_of_classifiers() -> None:
    lines = (
        line("h", "linear.default", X, Ref("wt"), Ref("bt")),
        line("r", "relu_.default", Ref("h")),
        line("s", "sigmoid.default", Ref("r")),
        line("t", "tanh.default", X),
        line("e", "exp.default", Ref("t")),
        line("q", "sqrt.default", Ref("e")),
        line("p", "_softmax.default", X, -1, False),
        line("rows", "repeat.default", Ref("ids"), (B, 1)),
        line("same", "slice.Tensor", Ref("rows"), 1, 0, 2),
    )
    program, params = program_of(lines, ("s", "e", "q", "p", "rows")), constants()
    assert set(ops_of(taped(program, params))) == {"colonnade.tape_0", "colonnade.item"}
    for rows in ROWS:
        given = values(rows, seed=rows)
        given["x"] = given["x"].nan_to_num(1.0, 40.0, -90.0).clamp(-90.0, 40.0)
        got, want = (answers(p, given, rows) for p in (taped(program, params), DensePlan(program, params)))
        for name in ("s", "e", "q", "p", "rows"):
            torch.testing.assert_close(got[name], want[name], rtol=1e-5, atol=1e-7)
    check(lines, ("p",), exact=False)


@pytest.mark.parametrize("product", ["linear", "mm", "addmm", "one", "wide"])
def test_products(product: str) -> None:
    lines = {
        "linear": line("h", "linear.default", Ref("a"), Ref("wt")),
        "mm": line("h", "mm.default", Ref("a"), Ref("w")),
        "addmm": line("h", "addmm.default", Ref("b"), Ref("a"), Ref("w")),
        "one": line("h", "linear.default", Ref("a"), Ref("row")),
        "wide": line("h", "linear.default", Ref("a"), Ref("wide")),
    }
    made = (line("a", "add.Tensor", X, 0.0), lines[product], line("r", "relu_.default", Ref("h")))
    program, params = program_of(made, ("r", "a")), constants()
    for rows in ROWS:
        given = values(rows, seed=rows)
        given["x"] = torch.randn(rows, 5)
        got, want = (answers(p, given, rows) for p in (taped(program, params), DensePlan(program, params)))
        torch.testing.assert_close(got["r"], want["r"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inner", [1, 255, 256, 257, 600])
@pytest.mark.parametrize("outer", [1, 8, 9, 16, 31, 40, 64, 71])
def test_products_of_any_size_are_one_sum_a_result(inner: int, outer: int) -> None:
    torch.manual_seed(inner * outer)
    params = {"m": torch.randn(outer, inner), "b": torch.randn(outer), "number": torch.tensor(0.5)}
    lines = (
        line("a", "mul.Tensor", Ref("m_in"), Ref("number")),
        line("h", "linear.default", Ref("a"), Ref("m"), Ref("b")),
        line("r", "relu_.default", Ref("h")),
    )
    inputs = (Input("m_in", "float32", (B, inner)),)
    program = Program(inputs, (), (), (), lines, (Output("r", Ref("r"), "float32", (B, outer)),))
    plain, alone, shared = DensePlan(program, params), taped(program, params), taped(program, params, 3)
    x = torch.randn(300, inner)
    rows = {n: alone.run({"m_in": x[:n]}, {"B": n})["r"] for n in (1, 2, 5, 31, 300)}
    want = plain.run({"m_in": x}, {"B": 300})["r"]
    torch.testing.assert_close(torch.as_tensor(rows[300]), want, rtol=1e-5, atol=1e-5 * inner**0.5)
    for n, found in rows.items():
        np.testing.assert_array_equal(found, rows[300][:n])
        np.testing.assert_array_equal(shared.run({"m_in": x[:n]}, {"B": n})["r"], found)


def test_smaller_and_larger_elements() -> None:
    lines = (
        line("a", "minimum.default", X, Y),
        line("b", "maximum.default", Ref("a"), ONE),
        line("c", "minimum.default", Ref("five"), Ref("b")),
        line("out", "maximum.default", Ref("c"), Ref("number")),
    )
    check(lines, ("out", "a", "b"), exact=False)


def test_threads_share_the_tiles_of_a_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "PARALLEL_WORK", 0)
    program, params = program_of(EXACT["arithmetic"], ("out",)), constants()
    plain, shared = DensePlan(program, params), taped(program, params, 4)
    for rows in (1, 8, 9, 33, 70, 1000):
        given = values(rows, seed=rows)
        want, got = answers(plain, given, rows), answers(shared, given, rows)
        np.testing.assert_array_equal(got["out"].numpy(), want["out"].numpy())


def test_slots_are_filled_and_then_read() -> None:
    lines = (
        line("a", "mul.Tensor", X, 2.0),
        line("p", "colonnade.place", Ref("a"), Ref("z"), 2),
        line("b", "neg.default", ONE),
        line("q", "colonnade.place", Ref("b"), Ref("p"), 8),
        line("read", "slice.Tensor", Ref("q"), 1, 2, 4),
        line("c", "add.Tensor", Ref("read"), ONE),
        line("torch", "cumsum.default", Ref("q"), 1),
    )
    check(lines, ("q", "c", "torch"))


def test_what_torch_keeps_stands_before_and_behind() -> None:
    lines = (
        line("a", "add.Tensor", X, Y),
        line("big", "linear.default", X, Ref("large")),
        line("b", "slice.Tensor", Ref("big"), 1, 0, 5),
        line("c", "mul.Tensor", Ref("b"), Ref("a")),
        line("n", "neg.default", Ref("c")),
        line("behind", "cumsum.default", Ref("n"), 1),
        line("d", "add.Tensor", X, ONE),
        line("e", "mul.Tensor", Ref("d"), ONE),
        line("out", "sub.Tensor", Ref("e"), Ref("c")),
    )
    check(lines, ("out", "behind"))
    made, item = "colonnade.tape_", "colonnade.item"
    linear, cumsum = "aten.linear.default", "aten.cumsum.default"
    wanted = [linear, f"{made}0", item, item, cumsum, f"{made}1", item]
    assert ops_of(taped(program_of(lines, ("out", "behind")), constants())) == wanted


STAY = {
    "rows broadcast against elements": (line("a", "mul.Tensor", V, ONE),),
    "a factor": (line("a", "add.Tensor", X, Y, alpha=2),),
    "another batch": (line("t", "sum.dim_IntList", Ref("other"), (0,)), line("a", "add.Tensor", X, Ref("t"))),
    "a column of constants": (line("a", "mul.Tensor", Ref("one"), Ref("wt")),),
    "integers": (line("a", "add.Tensor", Ref("i"), 1),),
    "a reversed slice": (line("a", "slice.Tensor", X, 1, -2, 9),),
    "an empty slice": (line("a", "slice.Tensor", X, 1, 3, 3),),
    "steps": (line("a", "slice.Tensor", X, 1, 0, 5, 2),),
    "rows cut": (line("a", "slice.Tensor", X, 0, 0, 1),),
    "rows joined": (line("a", "cat.default", (X, Y), 0),),
    "the other softmax": (line("a", "_softmax.default", X, 0, False),),
    "the other largest": (line("a", "argmax.default", X, 0),),
    "a shape without rows": (line("a", "reshape.default", X, (dims.mul(5, B),)),),
}


@pytest.mark.parametrize("why", STAY)
def test_what_is_no_step_stays(why: str) -> None:
    lines = (
        *(line(f"n{k}", "neg.default", Ref(f"n{k - 1}" if k else "y")) for k in range(3)),
        *STAY[why],
    )
    program, params = program_of(lines, ("a", "n2")), constants()
    short = taped(program, params)
    assert STAY[why][-1].op in ops_of(short)
    given = values(3)
    got, want = answers(short, given, 3), answers(DensePlan(program, params), given, 3)
    np.testing.assert_array_equal(got["a"].numpy(), want["a"].numpy())


def test_short_runs_and_masks_stay() -> None:
    check((line("a", "add.Tensor", X, Y), line("out", "neg.default", Ref("a"))), ("out",), on_tape=False)
    masks = (line("a", "add.Tensor", X, Y), line("b", "neg.default", Ref("a")), line("out", "gt.Tensor", Ref("b"), X))
    check(masks, ("out",), on_tape=False)


def test_many_rows_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (*EXACT["arithmetic"], line("s", "sigmoid.default", Ref("e")))
    monkeypatch.setattr(lower, "MOST_WORK", 400)
    program, params = program_of(lines, ("out", "s")), constants()
    plain, short = DensePlan(program, params), taped(program, params)
    for rows in (1, 2, 70):
        given = values(rows)
        want, got = answers(plain, given, rows), answers(short, given, rows)
        np.testing.assert_array_equal(got["out"].numpy(), want["out"].numpy())
    assert torch.equal(got["s"].nan_to_num(), want["s"].nan_to_num())


def test_a_refusal_names_its_node() -> None:
    lines = (*EXACT["arithmetic"], Instruction("bad", "aten.reshape.default", (Ref("v"), (7,)), source="node"))
    with pytest.raises(GraphError, match="refuses the request") as caught:
        answers(taped(program_of(lines, ("out", "bad")), constants()), values(3), 3)
    assert caught.value.where == "node"


def test_concurrent_callers() -> None:
    program, params = program_of(EXACT["arithmetic"], ("out",)), constants()
    plain, short = DensePlan(program, params), taped(program, params)
    wrong: list[int] = []

    def call(rows: int) -> None:
        given = values(rows, seed=rows)
        want = answers(plain, given, rows)["out"].numpy()
        for _ in range(100):
            if not np.array_equal(answers(short, given, rows)["out"].numpy(), want, equal_nan=True):
                wrong.append(rows)

    callers = [threading.Thread(target=call, args=(rows,)) for rows in (1, 17, 40, 300)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@settings(max_examples=60)
@given(data=st.data(), rows=st.sampled_from(ROWS))
def test_random_chains(data: st.DataObject, rows: int) -> None:
    """Steps in any order on operands of any kind, with what torch keeps among them."""
    lines, made = [], ["x", "y", "one", "v"]
    operand = st.sampled_from(["row", "five", "number"])
    for k in range(data.draw(st.integers(1, 12))):
        pick = lambda: Ref(data.draw(st.sampled_from(made)))  # noqa: E731
        other = pick() if data.draw(st.booleans()) else Ref(data.draw(operand))
        name = f"n{k}"
        lines.append(
            data.draw(
                st.sampled_from(
                    (
                        line(name, "add.Tensor", pick(), other),
                        line(name, "mul.Tensor", other, pick()),
                        line(name, "relu.default", pick()),
                        line(name, "neg.default", pick()),
                        line(name, "unsqueeze.default", pick(), -1),
                        line(name, "squeeze.dims", pick(), (1,)),
                        line(name, "zeros_like.default", pick()),
                        line(name, "cat.default", (pick(), pick()), -1),
                        line(name, "flip.default", pick(), (0,)),
                    )
                )
            )
        )
        made.append(name)
    given = values(rows)
    kept: list[Instruction] = []
    for candidate in lines:  # those that torch takes, and that stay small
        try:
            found = answers(DensePlan(program_of([*kept, candidate], (candidate.output,)), constants()), given, rows)
        except GraphError:
            continue
        if found[candidate.output].numel() < 1 << 16:
            kept.append(candidate)
    outputs = [x.output for x in kept if data.draw(st.booleans())] or [x.output for x in kept[-1:]]
    program, params = program_of(kept, outputs), constants()
    want, got = answers(DensePlan(program, params), given, rows), answers(taped(program, params), given, rows)
    for name in outputs:
        assert got[name].shape == want[name].shape
        np.testing.assert_array_equal(got[name].numpy(), want[name].numpy())


def test_an_operand_of_another_form_is_refused() -> None:
    short = taped(program_of(EXACT["arithmetic"], ("out",)), constants())
    for key, bad in (("x", torch.zeros(2, 5)), ("y", torch.zeros(3, 4)), ("one", torch.zeros(3, 1).double())):
        with pytest.raises(ShapeError, match="another form"):
            answers(short, {**values(3), key: bad}, 3)
