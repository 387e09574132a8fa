"""What `lower` says in aten gives what `reference` computes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import sympy
import torch

from colonnade.backends.dense_ops import DENSE_OPS
from colonnade.errors import ColonnadeError
from colonnade.ir.program import OWN
from colonnade.ops.op import GRAPH_OPS, GraphOp, Lowered, Operand
from tests.unit.ops.graph.cases import MAKERS
from tests.unit.ops.graph.world import Refused, World

SEEDS = 25
LOWERED = sorted(n for n in MAKERS if getattr(GRAPH_OPS[n], "lower", None) is not GraphOp.lower)


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
        wanted = [want] if op.num_outputs == 1 else list(want)
        for f, v in zip(op.infer(*(a.facts for a in args)).outputs, wanted, strict=True):
            w.bind(f, v)
        made = _run(lowered, w)
        for got, exact in zip([made] if op.num_outputs == 1 else made, wanted, strict=True):
            said = f"seed {seed}: {lowered}: {got} {exact}"
            assert tuple(got.shape) == tuple(exact.shape) and got.dtype == exact.dtype, said
            assert np.allclose(got.numpy(), exact.numpy(), rtol=1e-6, equal_nan=True), said
        answered += 1
    assert answered


def _run(lowered: Lowered, w: World) -> Any:
    named = {k: _concrete(v, w, k == "dtype") for k, v in lowered.kwargs}
    own = lowered.op.startswith(OWN)
    return _called(lowered.op)(*_concrete(lowered.args, w, own), **named)


def _called(name: str) -> Any:
    if name.startswith(OWN):
        return DENSE_OPS[name]
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
    return getattr(torch, arg, arg) if is_dtype and isinstance(arg, str) else arg
