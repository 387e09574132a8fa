"""Single columns stored past the caches: whole cache lines alone, whatever the place of slots and rows."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from colonnade.backends.cpu import CpuBackend
from colonnade.backends.cpu import columns as cpu_columns
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.cache import ENGINE
from colonnade.backends.cpu.descriptor import lower_columns
from colonnade.core import dims
from colonnade.core.batch import Layout, Packed, Place
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.bucketize import Bucketize

B = dims.symbol("B")
NUM, ROWS, IDS = 35, 131, 50


@pytest.mark.parametrize("first", [0, 8, 16])
@pytest.mark.parametrize("gap", [0, 8])
@pytest.mark.parametrize("dim", [8, 16, 24, 32])
@pytest.mark.parametrize("more", [0, 4, 8])
@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_stores_past_the_caches_fill_exactly_the_slots(
    monkeypatch: pytest.MonkeyPatch, first: int, gap: int, dim: int, more: int, kind: str
) -> None:
    """Slots side by side or apart, rows that begin anywhere in a line; buckets, whose lines blocks share, and ids."""
    monkeypatch.setattr(cpu_columns, "STREAM_BYTES", 0)
    rng = np.random.default_rng(dim)
    offsets = [first + c * (dim + gap) for c in range(NUM)]
    width = offsets[-1] + dim + more
    names = [f"c{c}" for c in range(NUM)]
    bucket = Bucketize(Const(np.arange(1, IDS, dtype=np.float32)))
    columns = tuple(
        Column(n, Field(n) if kind == "int64" else Apply(bucket, Field(n)), n, "sum", slots=_slots(c, o, dim))
        for c, (n, o) in enumerate(zip(names, offsets, strict=True))
    )
    tables = {n: rng.normal(size=(IDS, dim)).astype(np.float32) for n in names}
    buffers = (Buffer("o", B, width), Buffer("more", B, 2 * dim + 1))
    program = Program((), tuple(Table(n, IDS, dim) for n in names), columns, buffers, (), ())
    ids = rng.integers(0, IDS, (NUM, ROWS))
    layout = Layout(B, {n: Place(kind, c, 1) for c, n in enumerate(names)}, {kind: NUM})
    out = {"o": _aligned(ROWS, width), "more": _aligned(ROWS, 2 * dim + 1)}
    compiled = CpuBackend().compile(program, Weights(tables, {}, {}), layout, id_policy="error", threads=1)
    packed = Packed(ROWS, {kind: ids.reshape(-1).astype(kind)}, np.empty(0, np.uint8), np.zeros(1, np.int64))
    compiled.run(packed, out)
    want = {name: np.full(array.shape, np.nan, np.float32) for name, array in out.items()}
    for column in columns:
        for slot in column.slots:
            rows = tables[column.name][ids[names.index(column.name)]]
            want[slot.output][:, slot.offset : slot.offset + dim] = rows
    assert all(np.array_equal(out[name], want[name], equal_nan=True) for name in out)


def _slots(number: int, offset: int, dim: int) -> tuple[Slot, ...]:
    """Columns 8 and 9, where the second block may begin, have a slot more."""
    more = (Slot("more", (number - 8) * dim, dim),) if number in (8, 9) else ()
    return (Slot("o", offset, dim), *more)


def _aligned(rows: int, width: int) -> np.ndarray:
    raw = np.full(rows * width + 16, np.nan, np.float32)
    skip = -raw.ctypes.data % 64 // 4
    return raw[skip : skip + rows * width].reshape(rows, width)


@pytest.mark.parametrize(("rows", "shared", "says"), [(50, True, True), (50, False, True), (5000, True, False)])
def test_blocks_say_where_their_small_tables_lie(rows: int, shared: bool, says: bool) -> None:
    """Whatever a block says lies within memory of its own, all of its tables and, unless shared, boundaries in it."""
    names = [f"c{c}" for c in range(24)]
    ops = [Bucketize(Const(np.arange(1, rows, dtype=np.float32) + (0 if shared else c))) for c in range(len(names))]
    columns = tuple(
        Column(n, Apply(op, Field(n)), n, "sum", slots=(Slot("o", 8 * c, 8),))
        for c, (n, op) in enumerate(zip(names, ops, strict=True))
    )
    tables = {n: np.zeros((rows, 8), np.float32) for n in names}
    program = Program((), tuple(Table(n, rows, 8) for n in names), columns, (Buffer("o", B, 192),), (), ())
    layout = Layout(B, {n: Place("float32", c, 1) for c, n in enumerate(names)}, {"float32": len(names)})
    lowered = lower_columns(columns, program, Weights(tables, {}, {}), layout, ENGINE.warm().tiles)
    for block in lowered.blocks.tolist():
        begin, size = block[w.READS // 8], block[w.READ_BYTES // 8]
        assert (size > 0) == says
        for number in range(block[w.COUNT // 8] if says else 0):
            place = block[w.COLUMN // 8] + w.DESCRIPTOR_BYTES * number
            words = (ctypes.c_int64 * (w.DESCRIPTOR_BYTES // 8)).from_address(place)
            table, tree = words[w.TABLE // 8], words[w.TREE // 8]
            assert begin <= table and table + rows * 32 <= begin + size
            assert shared or begin <= tree < begin + size
