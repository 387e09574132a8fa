"""Products cut along the inner dim equal plain ones; a linear and its relu become one instruction."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.backends.dense import DensePlan
from colonnade.backends.gpu.products import (
    LINEAR,
    LINEAR_PLACE,
    LINEAR_RELU,
    LINEAR_RELU_PLACE,
    RELU,
    Products,
    fused,
    parts_of,
)
from colonnade.core import dims
from colonnade.ir.program import PLACE, Buffer, Input, Instruction, Output, Program, Ref

B = dims.symbol("B")


def test_parts_fill_the_device_and_leave_little_over() -> None:
    assert parts_of(256, 8152, 1024, 132) == (16, 508)
    assert parts_of(32, 8152, 1024, 132) == (29, 280)
    assert parts_of(32, 8192, 1024, 132) == (32, 256)
    assert parts_of(2048, 8152, 1024, 132) == (1, 8152)  # tiles enough
    assert parts_of(1, 8152, 1024, 132) == (1, 8152)
    assert parts_of(64, 255, 8, 132) == (1, 255)  # too short
    assert parts_of(64, 1019, 8, 132) == (7, 144)  # a prime: 11 are left over
    assert parts_of(0, 8152, 1024, 132)[0] == parts_of(64, 8152, 0, 132)[0] == 1


@settings(max_examples=25)
@given(
    rows=st.sampled_from((0, 1, 8, 9, 33)),
    inner=st.sampled_from((1, 17, 64, 128, 129, 256, 1019, 1020)),
    outputs=st.sampled_from((1, 3, 32, 130)),
    has_bias=st.booleans(),
    relu=st.booleans(),
)
def test_products_equal_torch(rows: int, inner: int, outputs: int, has_bias: bool, relu: bool) -> None:
    generator = torch.Generator().manual_seed(rows * inner + outputs)
    x, weight = torch.randn(rows, inner, generator=generator), torch.randn(outputs, inner, generator=generator)
    bias = torch.randn(outputs, generator=generator) if has_bias else None
    products = Products(torch.device("cpu"), multiprocessors=132)
    got = products.ops[LINEAR_RELU if relu else LINEAR](x, weight, bias)
    want = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    want = want.relu() if relu else want
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


def test_nan_and_infinity_go_through() -> None:
    x = torch.ones(8, 256)
    x[0, 0], x[1, 0] = float("nan"), float("-inf")
    got = Products(torch.device("cpu"), multiprocessors=132).ops[LINEAR_RELU](x, torch.ones(4, 256))
    assert got[0].isnan().all() and (got[1] == 0).all() and (got[2] == 256).all()


def test_a_bias_that_the_kernel_cannot_read_is_left_to_torch() -> None:
    x, weight = torch.randn(8, 256), torch.randn(4, 256)
    linear = Products(torch.device("cpu"), multiprocessors=132).ops[LINEAR]
    for bias in (torch.randn(1), torch.randn(8)[::2], torch.randn(1).expand(4)):
        torch.testing.assert_close(linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias))


def test_the_default_dtype_of_the_process_is_not_that_of_a_product() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        x, weight = torch.ones(8, 256, dtype=torch.float32), torch.ones(4, 256, dtype=torch.float32)
        assert Products(torch.device("cpu"), multiprocessors=132).ops[LINEAR](x, weight).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def _program(*lines: Instruction, output: str) -> Program:
    out = Output("y", Ref(output), "float32", (B, 4))
    params = (("w", "float32", (4, 8)), ("b", "float32", (4,)))
    return Program((Input("x", "float32", (B, 8)),), (), (), (), lines, (out,), params)


def test_a_relu_that_alone_reads_a_linear_joins_it() -> None:
    linear = Instruction("h", LINEAR, (Ref("x"), Ref("w"), Ref("b")))
    program = _program(linear, Instruction("a", RELU, (Ref("h"),)), output="a")
    joined = fused(program)
    assert [(i.output, i.op) for i in joined.dense] == [("a", LINEAR_RELU)]
    params = {"w": torch.randn(4, 8), "b": torch.randn(4)}
    x = torch.randn(5, 8)
    ops = Products(torch.device("cpu"), multiprocessors=132).ops
    got = DensePlan(joined, params, ops=ops).run({"x": x}, {"B": 5})["y"]
    torch.testing.assert_close(got, DensePlan(program, params).run({"x": x}, {"B": 5})["y"])


def test_a_linear_that_others_read_stays() -> None:
    linear = Instruction("h", LINEAR, (Ref("x"), Ref("w"), Ref("b")))
    program = _program(linear, Instruction("a", RELU, (Ref("h"),)), output="h")
    assert fused(program) == program


@pytest.mark.parametrize(("relu", "op"), [(False, LINEAR_PLACE), (True, LINEAR_RELU_PLACE)])
@pytest.mark.parametrize("inner", [8, 200])
def test_a_product_that_is_only_copied_into_a_slot_joins_that(relu: bool, op: str, inner: int) -> None:
    lines = [Instruction("h", LINEAR, (Ref("x"), Ref("w"), Ref("b")))]
    lines += [Instruction("a", RELU, (Ref("h"),))] if relu else []
    lines += [Instruction("y", PLACE, (Ref(lines[-1].output), Ref("buf"), 3))]
    out = Output("y", Ref("y"), "float32", (B, 9))
    shapes = (("w", "float32", (4, inner)), ("b", "float32", (4,)))
    program = Program(
        (Input("x", "float32", (B, inner)),), (), (), (Buffer("buf", B, 9),), tuple(lines), (out,), shapes
    )
    joined = fused(program)
    assert [(i.output, i.op) for i in joined.dense] == [("y", op)]
    params = {"w": torch.randn(4, inner), "b": torch.randn(4)}
    values = [{"x": torch.ones(5, inner), "buf": torch.full((5, 9), 7.0)} for _ in range(2)]
    ops = Products(torch.device("cpu"), multiprocessors=132).ops
    got = DensePlan(joined, params, ops=ops).run(values[0], {"B": 5})["y"]
    torch.testing.assert_close(got, DensePlan(program, params).run(values[1], {"B": 5})["y"])
    assert (got[:, [0, 1, 2, 7, 8]] == 7).all()


def test_a_matrix_that_lies_transposed_is_left_to_torch() -> None:
    x, weight = torch.randn(8, 16), torch.randn(16, 4).T
    linear = Products(torch.device("cpu"), multiprocessors=132).ops[LINEAR]
    assert torch.equal(linear(x, weight), torch.nn.functional.linear(x, weight))


@pytest.mark.gpu
def test_products_on_a_device() -> None:
    device = torch.device("cuda")
    products = Products(device)
    for rows in (1, 8, 32, 200, 256, 3000):
        x, weight = torch.randn(rows, 8152, device=device), torch.randn(1024, 8152, device=device)
        bias = torch.randn(1024, device=device)
        got = products.ops[LINEAR_RELU](x, weight, bias)
        want = torch.nn.functional.linear(x.double(), weight.double(), bias.double()).relu()
        assert float((got - want).abs().max() / want.abs().max()) < 1e-5
        short = products.ops[LINEAR](x[:, :100], weight[:33, :100], bias[:33])
        want = torch.nn.functional.linear(x[:, :100].double(), weight[:33, :100].double(), bias[:33].double())
        assert float((short - want).abs().max() / want.abs().max()) < 1e-5
