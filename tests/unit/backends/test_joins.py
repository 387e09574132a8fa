"""Ops of two operands and of places in rows, on every backend, in every kind of column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from colonnade.backends.backend import Backend
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import GraphError, ShapeError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.add_place import AddPlace
from colonnade.ops.add_position import AddPosition
from colonnade.ops.at_least import AtLeast
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.join_hash import JoinHash
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.op import ElementFacts
from colonnade.ops.seed_hash import SeedHash
from colonnade.ops.split import Split
from colonnade.testing.check_backend import check_case
from colonnade.testing.strategies import Case

B = dims.symbol("B")
BACKENDS: dict[str, Any] = {
    "reference": ReferenceBackend,
    "cpu": CpuBackend,
    "gpu": lambda: GpuBackend(interpret=True),
}
ROWS = 13


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    made: Backend = BACKENDS[request.param]()
    return made


def crossed(*operands: Expr) -> Expr:
    first, *others = operands
    expr: Expr = Apply(SeedHash(0xDECAFCAFFE), first)
    for other in others:
        expr = Apply(JoinHash(), expr, other)
    return expr


TEXT, NUMBER, THIRD = Apply(HashBytes(), Field("s")), Field("i"), Apply(HashBytes(), Field("t"))
IDS: dict[str, Expr] = {
    "two": Apply(Mod(40), crossed(TEXT, NUMBER)),
    "three": Apply(Mod(40), crossed(NUMBER, TEXT, THIRD)),
    "places": Apply(AddPosition(5, 0), Apply(Mod(5), NUMBER)),
    "both": Apply(AddPosition(3, 0), Apply(Mod(4), crossed(TEXT, THIRD))),
    "moved": Apply(Mod(40), crossed(TEXT, Apply(AddPlace(5, 3), Apply(Mod(5), NUMBER), Apply(Mod(9), NUMBER)))),
    "a place within": Apply(Mod(40), crossed(TEXT, Apply(AddPosition(5, 20), Apply(Mod(5), NUMBER)), THIRD)),
}


def case(width: int, name: str, pooling: str) -> Case:
    rng = np.random.default_rng(width)
    ids = IDS[name]
    if isinstance(ids, Apply) and isinstance(ids.op, AddPosition):
        ids = Apply(AddPosition(ids.op.stride, width), *ids.args)
    texts = np.empty(ROWS * width, object)
    texts[:] = [b"word %d" % k * (k % 9) for k in rng.integers(0, 20, ROWS * width)]
    feed = {"s": texts.reshape(ROWS, width), "t": texts[::-1].reshape(ROWS, width)}
    feed["i"] = rng.integers(-(2**63), 2**63 - 1, (ROWS, width))
    filters = (Apply(NotEqual(b""), Field("s")), Apply(AtLeast(3), Apply(Mod(16), crossed(NUMBER, TEXT))))
    rows = 5 * width + 40
    out = 3 * width if pooling == "none" else 3
    column = Column("c", ids, "t", pooling, filters, slots=(Slot("out", 0, out),), default_row=2)
    inputs = tuple(Input(k, "int64" if k == "i" else "string", (B, width)) for k in feed)
    table = rng.standard_normal((rows, 3)).astype(np.float32)
    program = Program(inputs, (Table("t", rows, 3),), (column,), (Buffer("out", B, out),), (), ())
    return Case(program, Weights({"t": table}, {}, {}), feed, ROWS)


@pytest.mark.parametrize(("width", "pooling"), [(1, "sum"), (3, "mean"), (2, "none"), (20, "sqrtn")])
@pytest.mark.parametrize("name", IDS)
def test_every_kind_of_column(backend: Backend, name: str, width: int, pooling: str) -> None:
    check_case(backend, case(width, name, pooling))


@pytest.mark.parametrize(
    "ids",
    [
        Apply(AddPosition(5, 1), Apply(Mod(5), Apply(HashBytes(), Apply(Split(b";"), Field("s"))))),
        Apply(Mod(5), Apply(JoinHash(), Apply(HashBytes(), Apply(Split(b";"), Field("s"))), THIRD)),
    ],
    ids=["a token has no place", "tokens are not joined"],
)
@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_tokens_are_refused(target: str, ids: Expr) -> None:
    made = case(1, "two", "sum")
    (column,) = made.program.columns
    column = Column("c", ids, "t", "sum", slots=column.slots)
    program = Program(made.program.inputs, made.program.tables, (column,), made.program.buffers, (), ())
    if target == "gpu" and not isinstance(ids.op, AddPosition):  # type: ignore[attr-defined]
        return  # the gpu joins a string's word to each of its tokens
    with pytest.raises(GraphError):
        check_case(BACKENDS[target](), Case(program, made.weights, made.feed, made.rows))


@pytest.mark.parametrize("depth", [2, 3])
def test_how_deep_operands_lie_within_each_other(depth: int) -> None:
    """The cpu joins what is joined itself, and no deeper; the passes make nothing deeper."""
    ids: Expr = NUMBER
    for _ in range(depth):
        ids = Apply(JoinHash(), THIRD, ids)
    made = case(3, "two", "sum")
    column = replace(made.program.columns[0], ids=Apply(Mod(40), ids))
    program = replace(made.program, columns=(column,))
    for target in BACKENDS if depth == 2 else ("reference", "gpu"):
        check_case(BACKENDS[target](), Case(program, made.weights, made.feed, made.rows))
    if depth > 2:
        with pytest.raises(GraphError, match="joins one chain"):
            check_case(CpuBackend(), Case(program, made.weights, made.feed, made.rows))


def test_a_place_that_may_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="may not fit"):
        AddPlace(2**62, 4).infer(ElementFacts("int64", 0, 1), ElementFacts("int64"))
    with pytest.raises(ShapeError, match="int64 places"):
        AddPlace(1, 4).infer(ElementFacts("int64", 0, 1), ElementFacts("int32"))
    with pytest.raises(ShapeError, match="may not fit"):
        AddPosition(2**62, 4).infer(ElementFacts("int64", 0, 1))
    with pytest.raises(ShapeError, match="integers and a width"):
        AddPosition(1, 0).infer(ElementFacts("int64", 0, 1))
    with pytest.raises(ShapeError, match="int64"):
        JoinHash().infer(ElementFacts("int64"), ElementFacts("int32"))
