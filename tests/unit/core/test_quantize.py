"""Stored rows: what they stand for, bit by bit, and which rows are refused."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from colonnade.core import quantize
from colonnade.core.quantize import BFLOAT16, FLOAT16, INT8_ROWWISE, NARROW, UnstorableError

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
ROWS = arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(0, 19)), elements=FLOATS)
CALM = arrays(
    np.float32, st.tuples(st.integers(0, 5), st.integers(1, 19)), elements=st.floats(-(2.0**126), 2.0**126, width=32)
)


@given(ROWS)
def test_float16_and_bfloat16_are_those_of_torch(rows: np.ndarray) -> None:
    for dtype, torch_type in ((FLOAT16, torch.float16), (BFLOAT16, torch.bfloat16)):
        want = torch.from_numpy(rows.copy()).to(torch_type)
        stored = quantize.encode(rows, dtype)
        assert stored.dtype.name == quantize.carrier(dtype)
        same = (stored.view(np.int16) == want.view(torch.int16).numpy()) | np.isnan(rows)
        assert same.all()
        got = quantize.decode(stored, dtype, rows.shape[1])
        assert got.dtype == np.float32 and np.array_equal(np.isnan(got), np.isnan(rows))
        assert np.array_equal(got, want.float().numpy(), equal_nan=True)


def scalar_int8(row: np.ndarray) -> list[float]:
    """One row by the definition, with Python's own numbers where they are exact."""
    low, high = float(row.min()), float(row.max())
    scale = np.float32((high - low) / 255)
    found = []
    for x in row:
        code = round(float(np.float32(x - np.float32(low)) / scale)) if scale > 0 else 0
        found.append(float(np.float32(np.float32(min(code, 255)) * scale) + np.float32(low)))
    return found


@given(CALM)
def test_int8_rows_are_near_and_what_the_definition_says(rows: np.ndarray) -> None:
    dim = rows.shape[1]
    stored = quantize.encode(rows, INT8_ROWWISE)
    assert stored.dtype == np.uint8 and stored.shape == (len(rows), dim + -dim % 8 + 8)
    assert not stored[:, dim : dim + -dim % 8].any()
    got = quantize.decode(stored, INT8_ROWWISE, dim)
    for row, bytes_, values in zip(rows, stored, got, strict=True):
        scale, bias = struct.unpack("<2f", bytes_[-8:].tobytes())
        assert bias == row.min()
        slack = 0.5 * scale + 4 * np.finfo(np.float32).eps * float(np.abs(row).max()) + 255 * 1.5e-45
        assert np.abs(values.astype(np.float64) - row).max() <= slack
        with np.errstate(all="ignore"):
            assert values.tolist() == [np.float32(c) * np.float32(scale) + np.float32(bias) for c in bytes_[:dim]]
            assert values.tolist() == scalar_int8(row)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_row_of_zero_bytes_is_zeros(dtype: str) -> None:
    stored = np.zeros((2, quantize.row_width(dtype, 5)), quantize.carrier(dtype))
    got = quantize.decode(stored, dtype, 5)
    assert got.shape == (2, 5) and not got.any() and not np.signbit(got).any()


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("dim", [0, 1, 7, 8, 33])
def test_store_in_chunks(dtype: str, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "CHUNK", 64)
    raw = np.zeros(1 + 4 * 100 * dim, np.uint8)
    rows = raw[1:].view(np.float32).reshape(100, dim)
    rows[:] = np.random.default_rng(dim).normal(size=rows.shape)
    rows.flags.writeable = False
    read: list[int] = []
    made = quantize.store(rows, dtype, read.append)
    assert np.array_equal(made.array, quantize.encode(rows, dtype)) and sum(read) == rows.nbytes
    error = np.abs(quantize.decode(made.array, dtype, dim) - rows).astype(np.float64)
    assert made.largest == error.max(initial=0)
    assert made.rms == pytest.approx(math.sqrt(np.square(error).mean()) if dim else 0)
    assert made.array.nbytes == 100 * quantize.row_bytes(dtype, dim)


def test_int8_refuses_what_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "CHUNK", 8)
    rows = np.ones((9, 4), np.float32)
    quantize.store(rows, INT8_ROWWISE)
    for bad in (np.nan, np.inf, -np.inf):
        rows[3, 2] = rows[5, 0] = bad
        with pytest.raises(UnstorableError, match=r"row 3 has a NaN.*and 1 more rows") as caught:
            quantize.store(rows, INT8_ROWWISE)
        assert (caught.value.first, caught.value.count) == (3, 2)
    wide = np.array([[-3e38, 1e38, 3e38]], np.float32)
    with pytest.raises(UnstorableError, match="beyond float32"):
        quantize.store(wide, INT8_ROWWISE)


def test_sixteen_bits_keep_nan_and_infinity_and_refuse_overflow() -> None:
    odd = np.array([[np.nan, np.inf, -np.inf, 1.0]], np.float32)
    for dtype, large, largest in ((FLOAT16, 65520.0, 65519.0), (BFLOAT16, 3.4e38, 3.38e38)):
        made = quantize.store(odd, dtype)
        assert np.array_equal(quantize.decode(made.array, dtype, 4), odd, equal_nan=True)
        assert made.largest == made.rms == 0
        quantize.store(np.array([[largest]], np.float32), dtype)
        with pytest.raises(UnstorableError, match=f"row 1 exceeds {dtype}"):
            quantize.store(np.array([[0], [large]], np.float32), dtype)
