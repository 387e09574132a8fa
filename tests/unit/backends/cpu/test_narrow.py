"""Tables of few bits in the engine: every stored value, every kind of column, equal to the reference in every bit."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.backends import lanes as all_lanes
from colonnade.backends import memory
from colonnade.backends.cpu import CpuBackend, intrinsics
from colonnade.core import quantize
from colonnade.core.batch import Layout, Place
from colonnade.core.expr import Field
from colonnade.errors import GraphError
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Program, Weights
from colonnade.ir.table import Table
from tests.unit.backends.cpu.columns import B, Case, Maker, check


def case(
    stored: np.ndarray, dtype: str, dim: int, ids: np.ndarray, pooling: str = "sum", weights: bool = False
) -> Case:
    rows, width = ids.shape
    slot = dim * width if pooling == "none" else dim
    factors = Field("w") if weights else None
    column = Column("c", Field("x"), "t", pooling, (), factors, 1, slots=(Slot("o", 0, slot),))
    program = Program((), (Table("t", len(stored), dim, dtype),), (column,), (Buffer("o", B, slot),), (), ())
    places = {"x": Place("int64", 0, width), "w": Place("float32", 0, width)}
    buffers = {"int64": ids.reshape(-1), "float32": np.linspace(-2, 3, ids.size).astype(np.float32)}
    layout = Layout(B, places, {"int64": width, "float32": width})
    return Case(program, Weights({"t": stored}, {}, {}), layout, buffers, [], rows)


def run(made: Case) -> np.ndarray:
    out = made.outputs()
    compiled = CpuBackend().compile(made.program, made.weights, made.layout, id_policy="error", threads=1)
    compiled.run(made.packed(), out)
    return out["o"]


@pytest.mark.parametrize("dim", [1, 16])
@pytest.mark.parametrize("dtype", [quantize.FLOAT16, quantize.BFLOAT16])
def test_every_16_bit_value(dtype: str, dim: int) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(-1, dim)
    stored = bits.view(quantize.carrier(dtype))
    got = run(case(stored, dtype, dim, np.arange(len(bits))[:, None]))
    want = quantize.decode(stored, dtype, dim)
    is_nan = np.isnan(want)
    assert np.array_equal(np.isnan(got), is_nan)
    assert np.array_equal(got[~is_nan].view(np.uint32), want[~is_nan].view(np.uint32))
    assert np.array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("lanes", [True, False])
def test_float16_on_a_cpu_that_cannot_convert_it(lanes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intrinsics, "_has_f16c", lambda context: False)
    step = all_lanes.LANES if lanes else 1
    load = intrinsics._load_as_f32(memory.I16, intrinsics._from_f16, step)
    store = all_lanes.store_lanes if lanes else memory.store_f32

    @memory.kernel
    def copy(source: int, out: int, n: int) -> None:
        for i in range(0, n, step):
            store(out + 4 * i, load(source + 2 * i))

    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    got, want = np.zeros(1 << 16, np.float32), halves.astype(np.float32)
    copy(halves.ctypes.data, got.ctypes.data, len(got))
    is_nan = np.isnan(want)
    assert np.array_equal(np.isnan(got), is_nan) and np.array_equal(np.signbit(got), np.signbit(want))
    assert np.array_equal(got[~is_nan].view(np.uint32), want[~is_nan].view(np.uint32))


@pytest.mark.parametrize("dim", [1, 7, 8, 9, 16, 300])
def test_every_code(dim: int) -> None:
    rng = np.random.default_rng(dim)
    stored = rng.integers(0, 256, (256, quantize.row_width(quantize.INT8_ROWWISE, dim)), dtype=np.uint8)
    at = quantize.tail_offset(dim)
    stored[:, at:].view("<f4")[:] = rng.normal(size=(256, 2)) * 10.0 ** rng.integers(-30, 30, (256, 2))
    got = run(case(stored, quantize.INT8_ROWWISE, dim, np.arange(256)[:, None]))
    want = [
        [np.float32(c) * scale + bias for c in row[:dim]]
        for row, (scale, bias) in zip(stored, stored[:, at:].view("<f4"), strict=True)
    ]
    assert np.array_equal(got.view(np.uint32), np.array(want, np.float32).view(np.uint32))


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("pooling", ["sum", "mean", "sqrtn", "max", "none"])
@pytest.mark.parametrize("dtype", quantize.NARROW)
def test_rows_of_any_length_and_dim(dtype: str, pooling: str, weights: bool) -> None:
    rng = np.random.default_rng(4)
    for dim, widths in ((5, (2, 9, 10, 31, 513, 1500)), (255, (3,)), (256, (17,)), (257, (2, 12, 600))):
        stored = quantize.encode(rng.normal(size=(40, dim)).astype(np.float32), dtype)
        for width in widths:
            check(case(stored, dtype, dim, rng.integers(0, 41, (3, width)), pooling, weights))


@pytest.mark.parametrize("seed", range(16))
def test_random_columns(seed: int) -> None:
    maker = Maker(seed, 2000 if seed % 4 == 0 else 40, dtypes=("float32", *quantize.NARROW))
    for _ in range(12):
        maker.column()
    check(maker.case((0, 1, 3, 33, 100)[seed % 5]), threads=1 + seed % 2, pad=seed % 3)


def test_what_it_cannot_read() -> None:
    double = np.zeros((4, 2))
    with pytest.raises(GraphError, match="cannot read such a table") as caught:
        run(case(double, "float64", 2, np.zeros((1, 1), np.int64)))
    assert caught.value.want == "float32, float16, bfloat16, int8_rowwise"
    with pytest.raises(GraphError, match="another dtype"):
        run(case(double, quantize.BFLOAT16, 2, np.zeros((1, 1), np.int64)))
