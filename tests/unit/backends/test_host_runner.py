"""The runner on the host; the executable's tests say what it answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade.backends.backend import layouts
from colonnade.backends.feed import FeedReader, Request
from colonnade.backends.host_runner import HostRunner, aligned, owned, storages
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.expr import Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Output, Program, Ref, Weights

B = dims.symbol("B")
PROGRAM = Program(
    inputs=(Input("x", "float32", (B, 2)), Input("y", "float32", (B,))),
    tables=(),
    columns=(Column("x", Field("x"), None, "none", slots=(Slot("buf", 0, 2),)),),
    buffers=(Buffer("buf", B, 2),),
    dense=(),
    outputs=(Output("buf", Ref("buf"), "float32", (B, 2)), Output("y", Ref("y"), "float32", (B,))),
)


def test_parts_of_a_request() -> None:
    plans = layouts(PROGRAM)
    runner = ReferenceBackend().prepare(PROGRAM, Weights({}, {}, {}), plans, id_policy="error", threads=1)
    assert isinstance(runner, HostRunner) and runner.dense_inputs == {"y"}
    assert runner.reserve() is None and runner.notes == ()
    feed = {"x": np.ones((3, 2), np.float32), "y": np.zeros(3, np.float32)}
    outcome = runner.run(FeedReader(PROGRAM, plans, runner.dense_inputs).read(feed))
    assert list(outcome.nanoseconds) == ["columns", "dense"] and outcome.zeroed == 0
    np.testing.assert_array_equal(outcome.outputs["buf"], feed["x"])


def test_owned_copies_what_lies_elsewhere_too() -> None:
    given, kept, fresh = torch.zeros(4), torch.zeros(4), torch.zeros(4)
    request = Request((), {"x": given}, {}, True)
    values = {"a": given, "b": kept[1:], "c": fresh, "d": fresh[2:], "e": np.array([b"t"], object)}
    got = owned(values, request, storages([kept]))
    places = [got[name].untyped_storage().data_ptr() for name in "abcd"]
    assert len({*places, *storages([given, kept])}) == 6 and got["c"] is fresh
    assert got["e"] is not values["e"]


def test_aligned_parameters() -> None:
    block = torch.arange(64, dtype=torch.float32)
    for value in (block, block[1:], block.view(8, 8).t()):
        found = aligned(value)
        assert torch.equal(found, value) and found.data_ptr() % 64 == 0 and found.is_contiguous()


def test_bfloat16_comes_as_float32_where_numpy_is_wanted() -> None:
    value = torch.tensor([1.0, 1 / 3, float("inf"), -0.0]).bfloat16()
    array = owned({"y": value}, Request((), {}, {}, is_torch=False), frozenset())["y"]
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, value.float().numpy())
    tensor = owned({"y": value}, Request((), {}, {}, is_torch=True), frozenset())["y"]
    assert tensor.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_of_inference_mode_become_ordinary_ones(dtype: torch.dtype) -> None:
    with torch.inference_mode():
        whole = torch.arange(12).to(dtype).view(3, 4)
        views = {
            "whole": whole,
            "turned": whole.clone().t()[1:],
            "number": whole[0, 0].clone(),
            "none": whole[:0].clone(),
        }
        views["shared"] = whole[1:]
        wanted = {name: value.clone() for name, value in views.items()}
    for name, value in owned(views, Request((), {}, {}, is_torch=True), frozenset()).items():
        assert torch.equal(value, wanted[name]) and value.stride() == views[name].stride()
        value.add_(value)
        if dtype.is_floating_point:
            (value * torch.ones((), dtype=dtype, requires_grad=True)).sum().backward()
