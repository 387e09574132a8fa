"""Rows that lie more than 2^31 values, and 2^32 bytes, behind the first: addresses take 64 bits everywhere.

The tables are files of holes but for a few rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from colonnade.backends.backend import Backend, layouts
from colonnade.backends.cpu.backend import CpuBackend
from colonnade.backends.feed import FeedReader
from colonnade.backends.gpu.backend import GpuBackend
from colonnade.backends.gpu.check import CAPABILITIES, compiled
from colonnade.backends.gpu.columns import GpuColumns
from colonnade.backends.reference import ReferenceBackend
from colonnade.core import dims, quantize
from colonnade.core.expr import Apply, Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.mod import Mod
from colonnade.ops.not_equal import NotEqual

Array = npt.NDArray[Any]
B, N = dims.symbol("B"), dims.symbol("N")
FORMS = ("float32", "float16", "bfloat16", "int8_rowwise")
DIMS = (8, 9)
"""A row that is a power of two, and one that is not."""
POOLINGS = ("sum", "mean", "sqrtn", "max")


def rows_of(dim: int) -> int:
    """Rows of 2^31 values, and 2^30 more: of any form, more than 2^32 bytes."""
    return 3 * 2**30 // dim + 5


def touched(dim: int) -> Array:
    """The ids that are looked up: at both ends, and on both sides of 2^31 values and bytes and of 2^32 bytes."""
    rows = rows_of(dim)
    edges = [edge // size for edge in (2**31, 2**32) for size in (dim, 2 * dim, 4 * dim, quantize.tail_offset(dim) + 8)]
    ids = [0, 1, *(edge + k for edge in edges for k in (-1, 0, 1)), rows - 2, rows - 1]
    return np.unique([id_ for id_ in ids if id_ < rows])


def tables_of(dtype: str, dim: int, file: Path) -> tuple[Array, Array]:
    """A large table, and one of its touched rows alone."""
    ids = touched(dim)
    values = np.random.default_rng(dim).standard_normal((len(ids), dim)).astype(np.float32)
    few = values if dtype == "float32" else quantize.encode(values, dtype)
    large = np.asarray(np.memmap(file, few.dtype, "w+", shape=(rows_of(dim), few.shape[1])))
    large[ids] = few
    return large, few


def program_of(dtype: str, rows: dict[int, int], poolings: Sequence[str] = POOLINGS) -> Program:
    """A column of each kind on each table."""
    inputs = [Input("ends", "int64", (B + 1,)), Input("by", "float32", (N,), offsets="ends")]
    columns, at = [], 0
    for dim in DIMS:
        inputs += [Input(f"one{dim}", "int32", (B, 1)), Input(f"few{dim}", "int64", (B, 3))]
        inputs += [Input(f"many{dim}", "int64", (N,), offsets="ends")]
        one, few, many = (Field(f"{name}{dim}") for name in ("one", "few", "many"))
        given: list[tuple[str, Any, str, dict[str, Any]]] = [("one", one, "sum", {}), ("spread", few, "none", {})]
        given += [(f"few {pooling}", few, pooling, {"default_row": rows[dim] - 1}) for pooling in poolings]
        given += [(f"many {pooling}", many, pooling, {"weights": Field("by")}) for pooling in poolings]
        given += [("kept", Apply(Mod(rows[dim]), few), "sum", {"filters": (Apply(NotEqual(0), few),)})]
        for name, ids, pooling, more in given:
            width = 3 * dim if pooling == "none" else dim
            columns.append(Column(f"{name} {dim}", ids, f"t{dim}", pooling, slots=(Slot("out", at, width),), **more))
            at += width
    tables = tuple(Table(f"t{dim}", rows[dim], dim, dtype) for dim in DIMS)
    return Program(tuple(inputs), tables, tuple(columns), (Buffer("out", B, at),), (), ())


def feed_of(ids: dict[int, Array]) -> dict[str, Array]:
    """A batch. ids: of each table, those that rows are looked up by."""
    rng, ends = np.random.default_rng(0), np.array([0, 0, 3, 70, 71])
    made: dict[str, Array] = {"ends": ends, "by": rng.standard_normal(71).astype(np.float32)}
    for dim in DIMS:
        known = ids[dim]
        made[f"one{dim}"] = known[[-1, 0, -2, 7]].astype(np.int32)[:, None]  # the last is outside
        made[f"few{dim}"] = known[rng.integers(0, len(known) - 1, (4, 3))]
        made[f"few{dim}"][0] = 0
        made[f"many{dim}"] = known[rng.integers(0, len(known), 71)]
    return made


def answer(backend: Backend, dtype: str, tables: dict[int, Array], ids: dict[int, Array]) -> tuple[Array, int]:
    """The outputs, and how many ids are outside."""
    program = program_of(dtype, {dim: len(table) for dim, table in tables.items()})
    (plan,) = layouts(program)
    (packed,) = FeedReader(program, [plan]).read(feed_of(ids)).packed
    weights = Weights({f"t{dim}": table for dim, table in tables.items()}, {}, {})
    out = np.full((4, program.buffers[0].width), np.nan, np.float32)
    outside = backend.compile(program, weights, plan, id_policy="zero", threads=1).run(packed, {"out": out})
    return out, outside


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read where they lie: a copy would touch all of them."""
    monkeypatch.setattr(GpuColumns, "_uploaded", lambda _, tables, __: {n: t.ctypes.data for n, t in tables.items()})


@pytest.mark.parametrize("backend", [CpuBackend(), GpuBackend(interpret=True)], ids=["cpu", "gpu"])
@pytest.mark.parametrize("dtype", FORMS)
def test_rows_far_behind_the_first_are_read_as_near_ones_are(
    dtype: str, backend: Backend, in_place: None, tmp_path: Path
) -> None:
    made = {dim: tables_of(dtype, dim, tmp_path / f"{dim}") for dim in DIMS}
    large, few = ({dim: tables[k] for dim, tables in made.items()} for k in (0, 1))
    far = {dim: np.append(touched(dim), rows_of(dim)) for dim in DIMS}
    near = {dim: np.arange(len(few[dim]) + 1) for dim in DIMS}
    want, outside = answer(ReferenceBackend(), dtype, few, near)
    at_hand = answer(backend, dtype, few, near)
    got = answer(backend, dtype, large, far)
    assert outside > 2 and at_hand[1] == got[1] == outside
    np.testing.assert_array_equal(got[0], at_hand[0])
    np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FORMS[1:])  # outputs are of float32, too
def test_compiled_kernels_place_rows_by_64_bits(dtype: str, in_place: None, tmp_path: Path) -> None:
    """Every number of values that is added to where a table lies, as it stands in the code."""
    program = program_of(dtype, {dim: rows_of(dim) for dim in DIMS}, ("mean",))
    weights = Weights({f"t{dim}": tables_of(dtype, dim, tmp_path / f"{dim}")[0] for dim in DIMS}, {}, {})
    (plan,) = layouts(program)
    columns = GpuBackend(interpret=True).compile(program, weights, plan, id_policy="zero", threads=1)
    kind = {"float16": "f16", "bfloat16": "bf16", "int8_rowwise": "i8"}[dtype]
    text = compiled(columns.schedule, CAPABILITIES[0], tmp_path).asm["ttir"]
    added = re.findall(rf"tt\.addptr [^:]*: tensor<[0-9x]+!tt\.ptr<{kind}>>, tensor<[0-9x]+(i\d+)>", text)
    assert len(added) > 4 and set(added) == {"i64"}
