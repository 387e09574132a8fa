"""`vocabulary` on every backend: known keys, near misses, unknown keys with and without buckets of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.backends.backend import Backend
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split
from colonnade.ops.vocabulary import Vocabulary
from colonnade.testing.check_backend import check_case
from colonnade.testing.strategies import Case

B = dims.symbol("B")
BACKENDS: dict[str, Any] = {
    "reference": ReferenceBackend,
    "cpu": CpuBackend,
    "gpu": lambda: GpuBackend(interpret=True),
}
LONG = [b"%d%s" % (k, b"x" * (k % 70)) for k in range(60)]


def objects(*values: bytes) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def case(op: Vocabulary, values: Any, rows: int = 40, split: bool = False) -> Case:
    dtype = "string" if values.dtype == object else "int64"
    width = 1 if values.ndim == 1 else values.shape[1]
    source: Expr = Apply(Split(b";"), Field("x")) if split else Field("x")
    filters = (Apply(NotEqual(b""), source),) if dtype == "string" else ()
    column = Column("c", Apply(op, source), "t", "sum", filters, slots=(Slot("out", 0, 3),))
    table = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
    program = Program(
        (Input("x", dtype, (B, width)),), (Table("t", rows, 3),), (column,), (Buffer("out", B, 3),), (), ()
    )
    values = values.reshape(len(values), width)
    return Case(program, Weights({"t": table}, {}, {}), {"x": values}, len(values))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    made: Backend = BACKENDS[request.param]()
    return made


def vocabulary(keys: Any, default: int, num_oov: int = 0, function: str = "farm") -> Vocabulary:
    return Vocabulary(Const(keys), Const(np.arange(len(keys))), default, num_oov, function)


@pytest.mark.parametrize(("default", "num_oov"), [(-1, 0), (3, 0), (8, 5), (8, 1)])
def test_strings(backend: Backend, default: int, num_oov: int) -> None:
    keys = objects(b"a", b"b", b"", b"a\0", b"x" * 8, b"x" * 9, b"y" * 64, b"y" * 65)
    asked = [*keys, b"c", b"a\0\0", b"x" * 7, b"x" * 10, b"y" * 63 + b"z", b"\xff", *LONG[:20]]
    check_case(backend, case(vocabulary(keys, default, num_oov), objects(*asked)), id_policy="zero")


@pytest.mark.parametrize(("default", "num_oov"), [(-1, 0), (2, 0), (5, 7)])
def test_integers(backend: Backend, default: int, num_oov: int) -> None:
    keys = np.array([0, 7, -3, 2**63 - 1, -(2**63)])
    asked = np.array([*keys, 1, -1, 8, 2**62, 10**18, -(10**18), -(2**63) + 1, 2**32 + 7])
    check_case(backend, case(vocabulary(keys, default, num_oov), asked), id_policy="zero")


@pytest.mark.parametrize("num_oov", [0, 1, 7, 64, 2**62, 2**63 - 6])
def test_integers_whose_buckets_are_remainders(backend: Backend, num_oov: int) -> None:
    keys = np.array([0, 7, -3, 2**63 - 1, -(2**63)])
    asked = np.array([*keys, 1, -1, 8, 2**62, -(2**62), -(10**18), -(2**63) + 1, -7, -64, 2**32 + 7])
    check_case(backend, case(vocabulary(keys, 5, num_oov, "floor_mod"), asked), id_policy="zero")


def test_no_key_at_all(backend: Backend) -> None:
    check_case(backend, case(vocabulary(objects(), 0, 4), objects(b"", b"a", b"bb")))
    check_case(backend, case(vocabulary(np.zeros(0, np.int64), 2), np.array([0, 5])))


def test_tokens_and_values_in_any_order(backend: Backend) -> None:
    op = Vocabulary(Const(objects(*LONG)), Const(np.random.default_rng(1).permutation(60)), 60, 3)
    asked = objects(b";".join(LONG[:30]), b"", b";;", b"nothing;" + LONG[59], *LONG[::9])
    check_case(backend, case(op, asked, rows=63, split=True))
