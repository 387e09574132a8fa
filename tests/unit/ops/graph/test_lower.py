"""What `lower` says in aten gives what `reference` computes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import sympy
import torch

from colonnade.errors import ColonnadeError
from colonnade.ops.op import GRAPH_OPS, GraphOp, Lowered, Operand, torch_dtype
from tests.unit.ops.graph.cases import MAKERS
from tests.unit.ops.graph.world import Refused, World

SEEDS = 25
NEVER = {"div_no_nan", "sign", "squared_difference"}
LOWERED = sorted(n for n in MAKERS if n not in NEVER and getattr(GRAPH_OPS[n], "lower", None) is not GraphOp.lower)


@pytest.mark.parametrize("name", LOWERED)
def test_lowered_equals_reference(name: str) -> None:
    answered = 0
    for seed in range(SEEDS):
        w = World(random.Random(f"lower {name}{seed}"))
        try:
            op, args = MAKERS[name](w)
            lowered = op.lower(*(Operand(a.value, a.facts) for a in args))
            want = op.reference(*(a.value for a in args))
        except (Refused, ColonnadeError):
            continue
        if lowered is None or any(a.array.dtype == object for a in args):
            continue
        if name in ("max", "min") and args[0].array.size == 0:
            continue  # aten refuses, where TensorFlow answers with the end of the dtype
        for f, v in zip(op.infer(*(a.facts for a in args)).outputs, [want], strict=True):
            w.bind(f, v)
        got = _run(lowered, w)
        assert tuple(got.shape) == tuple(want.shape) and got.dtype == want.dtype, f"seed {seed}: {lowered}"
        assert np.allclose(got.numpy(), want.numpy(), rtol=1e-6, equal_nan=True), f"seed {seed}: {lowered}"
        answered += 1
    assert answered


def _run(lowered: Lowered, w: World) -> Any:
    named = {k: _concrete(v, w, k == "dtype") for k, v in lowered.kwargs}
    return _aten(lowered.op)(*_concrete(lowered.args, w, False), **named)


def _aten(name: str) -> Any:
    space, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, space), op), overload)


def _concrete(arg: Any, w: World, is_dtype: bool) -> Any:
    """Dims as numbers, dtype names as dtypes, calls as what they give."""
    if isinstance(arg, Lowered):
        return _run(arg, w)
    if isinstance(arg, tuple):
        return [_concrete(a, w, is_dtype) for a in arg]
    if isinstance(arg, sympy.Expr):
        return w.size(arg)
    return torch_dtype(arg) if is_dtype else arg
