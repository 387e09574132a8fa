"""What one backend runs, every backend runs: columns of all forms, and those that all of them refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from colonnade.backends.backend import Backend, layouts
from colonnade.backends.cpu import CpuBackend
from colonnade.backends.feed import FeedReader
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import ColonnadeError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.at_least import AtLeast
from colonnade.ops.bucketize import Bucketize
from colonnade.ops.greater import Greater
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.split import Split
from colonnade.testing.check_backend import check_case
from colonnade.testing.strategies import Case

B, N = dims.symbol("B"), dims.symbol("N")
BACKENDS: dict[str, Callable[[], Backend]] = {
    "reference": ReferenceBackend,
    "cpu": CpuBackend,
    "gpu": lambda: GpuBackend(interpret=True),
}
ROWS, DIM = 11, 3
TEXT, NUMBER, OTHER, FACTOR = (Field(name) for name in ("s", "x", "i", "w"))
RAGGED_NUMBER, RAGGED_FACTOR, RAGGED_TEXT = Field("rx"), Field("rw"), Field("rs")
TOKENS, RAGGED_TOKENS = (Apply(Split(b";"), x) for x in (TEXT, RAGGED_TEXT))


def hashed(x: Expr) -> Expr:
    return Apply(Mod(40), Apply(HashBytes(), x))


def bucketized(x: Expr) -> Expr:
    return Apply(Bucketize(Const(np.array([-1, 0, 0.5], np.float32))), x)


def lookup(ids: Expr, pooling: str = "mean", **more: Any) -> Column:
    return Column("c", ids, "t", pooling, **more)


def numeric(ids: Expr, **more: Any) -> Column:
    return Column("c", ids, None, "none", **more)


POOLINGS = ("sum", "mean", "sqrtn", "max", "none")
KEPT = (Apply(Greater(-0.5, True), NUMBER), Apply(AtLeast(3), OTHER))
COLUMNS: dict[str, Column] = {
    "numeric": numeric(NUMBER),
    "numeric, filtered": numeric(NUMBER, filters=KEPT),
    "numeric, of buckets, filtered": numeric(bucketized(NUMBER), filters=KEPT[1:]),
    **{f"ids, {p}": lookup(bucketized(NUMBER), p, filters=KEPT) for p in POOLINGS},
    **{f"weighted ids, {p}": lookup(bucketized(NUMBER), p, weights=FACTOR, filters=KEPT) for p in POOLINGS},
    **{f"ragged ids, {p}": lookup(bucketized(RAGGED_NUMBER), p) for p in POOLINGS[:4]},
    **{f"weighted ragged ids, {p}": lookup(bucketized(RAGGED_NUMBER), p, weights=RAGGED_FACTOR) for p in POOLINGS[:4]},
    **{f"tokens, {p}": lookup(hashed(TOKENS), p, filters=(Apply(NotEqual(b""), TOKENS),)) for p in POOLINGS[:4]},
    **{
        f"weighted tokens, {p}": lookup(
            hashed(TOKENS), p, weights=FACTOR, filters=(Apply(NotEqual(b""), TOKENS), *KEPT), default_row=2
        )
        for p in POOLINGS[:4]
    },
    **{f"weighted ragged tokens, {p}": lookup(hashed(RAGGED_TOKENS), p, weights=RAGGED_FACTOR) for p in POOLINGS[:4]},
    "marks": lookup(bucketized(NUMBER), "marks", weights=FACTOR),
}
REFUSED: dict[str, Column] = {
    "numeric, weighted": numeric(NUMBER, weights=FACTOR),
    "numeric, of tokens": numeric(hashed(TOKENS)),
    "numeric, ragged": numeric(RAGGED_NUMBER),
    "tokens, not pooled": lookup(hashed(TOKENS), "none"),
    "ragged ids, not pooled": lookup(bucketized(RAGGED_NUMBER), "none"),
    "tokens as weights": lookup(bucketized(NUMBER), weights=hashed(TOKENS)),
    "tokens of one separator, kept by those of another": lookup(
        hashed(TOKENS), filters=(Apply(NotEqual(b""), Apply(Split(b","), TEXT)),)
    ),
    "dense ids, weighted by ragged numbers": lookup(bucketized(NUMBER), weights=RAGGED_FACTOR),
}


def case(column: Column, width: int, rows: int = ROWS) -> Case:
    rng = np.random.default_rng(width)
    words = np.array([b"", b"a", b";", b"a;b;;c", b"yy;" * 9, b"\xff;x"], object)
    offsets = np.cumsum([0, *rng.integers(0, 4, rows)])
    sizes: dict[str, tuple[int, ...]] = {k: (rows, width) for k in ("s", "x", "i", "w")}
    sizes |= {k: (int(offsets[-1]),) for k in ("rs", "rx", "rw")}
    feed: dict[str, Any] = {}
    for name, shape in sizes.items():
        if name in ("s", "rs"):
            feed[name] = words[rng.integers(len(words), size=shape)]
        elif name == "i":
            feed[name] = rng.integers(0, 9, shape)
        else:
            feed[name] = (rng.random(shape) + 0.25 if name[-1] == "w" else rng.standard_normal(shape)).astype(
                np.float32
            )
    feed["r"] = offsets
    if column.pooling == "marks":
        feed["w"] = np.ones_like(feed["w"])
    dtypes = {"s": "string", "rs": "string", "i": "int64", "r": "int64"}
    inputs = tuple(
        Input(k, dtypes.get(k, "float32"), (N,), offsets="r")
        if k in ("rs", "rx", "rw")
        else Input(k, dtypes.get(k, "float32"), (dims.add(B, 1),) if k == "r" else (B, width))
        for k in feed
    )
    out = (1 if column.table is None else DIM) * (width if column.pooling == "none" else 1)
    column = replace(column, slots=(Slot("out", 0, out),))
    tables = () if column.table is None else (Table("t", 40, DIM),)
    weights = {t.name: rng.standard_normal((40, DIM)).astype(np.float32) for t in tables}
    program = Program(inputs, tables, (column,), (Buffer("out", B, out),), (), ())
    return Case(program, Weights(weights, {}, {}), feed, rows)


@pytest.mark.parametrize("width", [1, 3, 20])
@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_of_all_forms(backend: str, width: int) -> None:
    made = BACKENDS[backend]()
    for column in COLUMNS.values():
        check_case(made, case(column, width))


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_rows(backend: str) -> None:
    made = BACKENDS[backend]()
    for column in COLUMNS.values():
        check_case(made, case(column, 3, rows=0))


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_runs(name: str) -> None:
    made = case(REFUSED[name], 3)
    request = FeedReader(made.program, layouts(made.program)).read(made.feed)
    for backend in (CpuBackend, BACKENDS["gpu"]):
        with pytest.raises(ColonnadeError):
            for layout, packed in zip(layouts(made.program), request.packed, strict=True):
                columns = backend().compile(made.program, made.weights, layout, id_policy="error", threads=1)
                columns.run(packed, {"out": np.zeros((made.rows, made.program.buffers[0].width), np.float32)})
