"""Every fact that `infer` states holds of what `reference` computes, for every graph op on random operands."""

from __future__ import annotations

import random

import numpy as np
import pytest

from colonnade.ops.op import GRAPH_OPS
from tests.unit.ops.graph.cases import MAKERS, SIZES, affine, indices, op_of
from tests.unit.ops.graph.world import Refused, Val, World

SEEDS = 40


def test_every_op_has_cases() -> None:
    here = {name for name, op in GRAPH_OPS.items() if op.__module__.startswith("colonnade.ops.graph.")}
    assert set(MAKERS) == here - {"placeholder", "variable", "constant"}


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_facts_hold(name: str) -> None:
    answered = 0
    for seed in range(SEEDS):
        w = World(random.Random(f"{name}{seed}"))
        try:
            op, args = MAKERS[name](w)
            w.run(op, *args)
            answered += 1
        except Refused:
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert answered > SEEDS // 4


def _step(w: World, x: Val) -> Val:
    """One more shape-like op."""
    r = w.random
    rank = x.array.ndim
    count = [r.choice([1, 1, 2, 3]) for _ in range(rank)]
    match r.choice(["tile", "reshape", "expand", "mul", "add", "cast", "slice", "transpose", "pack", "gather", "self"]):
        case "tile" if x.array.size < 200:
            return w.one(op_of("tile"), x, w.sized(count))
        case "reshape":
            return w.one(op_of("reshape"), x, w.sized(r.choice([[-1], [-1, 1], [1, -1], [x.array.size]])))
        case "expand" if rank < 3:
            return w.one(op_of("expand_dims"), x, w.known(np.int32(r.randint(0, rank))))
        case "mul":
            return w.one(op_of("mul"), x, w.known(np.array(r.choice([2, -1, 7, 2**20]), x.array.dtype)))
        case "add":
            return w.one(op_of("add"), x, w.known(np.array(r.choice([1, -3, 2**30]), x.array.dtype)))
        case "self":
            return w.one(op_of(r.choice(["add", "sub"])), x, x)
        case "cast":
            return w.one(op_of("cast", r.choice(["int32", "int64"])), x)
        case "slice" if rank:
            begin = [r.randint(0, d) if r.random() < 0.3 else 0 for d in x.array.shape]
            return w.one(op_of("slice"), x, w.sized(begin), w.sized([-1] * rank))
        case "transpose":
            return w.one(op_of("transpose"), x, w.known(np.array(list(range(rank))[::-1], np.int32)))
        case "pack" if rank < 3:
            return w.one(op_of("pack", axis=r.randint(0, rank)), x, x)
        case "gather" if rank and x.array.shape[0]:
            rows = sorted(r.randrange(x.array.shape[0]) for _ in range(r.choice(SIZES)))
            return w.one(op_of("gather"), x, w.any(np.array(rows, np.int32)), w.known(np.int32(0)))
    return x


@pytest.mark.parametrize("seed", range(100))
def test_facts_hold_along_chains(seed: int) -> None:
    w = World(random.Random(seed))
    x = affine(w)
    for _ in range(6):
        try:
            x = _step(w, x)
        except Refused:
            continue


@pytest.mark.parametrize("seed", range(60))
def test_facts_hold_along_a_column(seed: int) -> None:
    """The tail of an embedding column: drop ids, reshape, fill empty rows, pool."""
    w = World(random.Random(seed))
    r = w.random
    try:
        places, dims = indices(w)
        if len(dims) < 2:
            return
        shape = w.sized(dims, "int64")
        values = w.fed(np.array([r.choice([-1, 0, 3]) for _ in places.array], np.int64))
        places, shape = w.run(op_of("sparse_reshape"), places, shape, w.sized([dims[0], -1], "int64"))
        mask = w.one(op_of("compare", "ge"), values, w.known(np.int64(r.choice([0, -(2**63)]))))
        kept = w.one(op_of("reshape"), w.one(op_of("where"), mask), w.known(np.array([-1], np.int32)))
        axis = w.known(np.int32(0))
        places, values = (w.one(op_of("gather"), v, kept, axis) for v in (places, values))
        filled = w.run(op_of("sparse_fill_empty_rows"), places, values, shape, w.known(np.int64(0)))
        bounds = [w.known(np.array(v, np.int32)) for v in ([0, 0], [0, 1], [1, 1])]
        rows = w.one(op_of("strided_slice", begin_mask=1, end_mask=1, shrink_axis_mask=2), filled[0], *bounds)
        assert rows.facts.order > 0
        table = w.fed(np.random.default_rng(seed).standard_normal((4, 3)).astype(np.float32))
        w.one(op_of("sparse_segment_reduce", "mean"), table, filled[1], rows)
    except Refused:
        return
