"""Single columns stored past the caches: whole cache lines alone, whatever the place of slots and rows."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.backends.cpu import CpuBackend, backend
from colonnade.core import dims
from colonnade.core.batch import Layout, Packed, Place
from colonnade.core.expr import Field
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Program, Weights
from colonnade.ir.table import Table

B = dims.symbol("B")
ROWS, IDS = 131, 50


@pytest.mark.parametrize("first", [0, 8, 16])
@pytest.mark.parametrize("gap", [0, 8])
@pytest.mark.parametrize("dim", [8, 16, 24, 32])
def test_stores_past_the_caches_fill_exactly_the_slots(
    monkeypatch: pytest.MonkeyPatch, first: int, gap: int, dim: int
) -> None:
    monkeypatch.setattr(backend, "STREAM_BYTES", 0)
    rng = np.random.default_rng(dim)
    num = 19
    offsets = [first + c * (dim + gap) for c in range(num)]
    width = offsets[-1] + dim + 8
    names = [f"c{c}" for c in range(num)]
    columns = tuple(
        Column(n, Field(n), n, "sum", slots=(Slot("o", o, dim),)) for n, o in zip(names, offsets, strict=True)
    )
    tables = {n: rng.normal(size=(IDS, dim)).astype(np.float32) for n in names}
    program = Program((), tuple(Table(n, IDS, dim) for n in names), columns, (Buffer("o", B, width),), (), ())
    ids = rng.integers(0, IDS, (num, ROWS))
    layout = Layout(B, {n: Place("int64", c, 1) for c, n in enumerate(names)}, {"int64": num})
    out = _aligned(ROWS, width)
    columns_ = CpuBackend().compile(program, Weights(tables, {}, {}), layout, id_policy="error", threads=1)
    columns_.run(Packed(ROWS, {"int64": ids.reshape(-1)}, np.empty(0, np.uint8), np.zeros(1, np.int64)), {"o": out})
    want = np.full((ROWS, width), np.nan, np.float32)
    for name, offset, id_ in zip(names, offsets, ids, strict=True):
        want[:, offset : offset + dim] = tables[name][id_]
    assert np.array_equal(out, want, equal_nan=True)


def _aligned(rows: int, width: int) -> np.ndarray:
    raw = np.full(rows * width + 16, np.nan, np.float32)
    skip = -raw.ctypes.data % 64 // 4
    return raw[skip : skip + rows * width].reshape(rows, width)
