"""Table rows in fewer bits: how they are stored, and which float32 values a stored row stands for.

    float16, bfloat16   rounded to nearest, ties to even; bfloat16 as its bits in uint16
    int8_rowwise        one uint8 array: codes, zeros up to a multiple of 8 bytes, scale, bias (float32, little endian)
                        value = round(round(code * scale) + bias), scale = (max - min) / 255, bias = min of the row

Facts: every row of `int8_rowwise` begins at a multiple of 8 bytes and ends with scale and bias as one aligned word, so
that 8 codes, or scale and bias, are one load; a row of zero bytes is a row of zeros in every type.
A backend rounds to float32 after the product and after the sum (no fused multiply-add): all backends then agree in
every bit. Multiples of 16 or 32 bytes would save a GPU half a memory sector a row, but make 24 bytes of a row of 16
values 32, as large as float16.
Source: the row-wise 8-bit format of FBGEMM (codes, then scale and bias), here with aligned rows.
Legend: R rows, D embedding_dim.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.tensor_file import CARRIERS

Array = npt.NDArray[Any]

FLOAT16, BFLOAT16, INT8_ROWWISE = "float16", "bfloat16", "int8_rowwise"
NARROW = (FLOAT16, BFLOAT16, INT8_ROWWISE)
ITEM_BYTES = {"float32": 4, "float64": 8, FLOAT16: 2, BFLOAT16: 2, "int8": 1, INT8_ROWWISE: 1}
ALIGNMENT = 8
TAIL = 8
"""Bytes of scale and bias."""
CHUNK = 1 << 18
"""Values that are converted at a time, at most, unless one row is longer."""
LITTLE = np.dtype("<f4")


class UnstorableError(ValueError):
    """Rows that hold what their type cannot. first: the first of them; count: how many there are."""

    def __init__(self, why: str, first: int, count: int) -> None:
        self.why, self.first, self.count = why, first, count
        super().__init__(f"row {first} {why}" + (f" (and {count - 1} more rows)" if count > 1 else ""))


@dataclass(frozen=True)
class Stored:
    """Rows as they are stored, and how far they are from the float32 rows they were made of.

    largest: absolute error.   rms: root of the mean squared error. Facts: NaN and infinities are kept or refused, and
    count as no error.
    """

    array: Array
    largest: float
    rms: float


def tail_offset(embedding_dim: int) -> int:
    """Where scale and bias of an `int8_rowwise` row lie. Units: bytes."""
    return embedding_dim + -embedding_dim % ALIGNMENT


def row_width(dtype: str, embedding_dim: int) -> int:
    """Items of a stored row."""
    return tail_offset(embedding_dim) + TAIL if dtype == INT8_ROWWISE else embedding_dim


def row_bytes(dtype: str, embedding_dim: int) -> int:
    """Size of a stored row. Units: bytes."""
    return row_width(dtype, embedding_dim) * ITEM_BYTES[dtype]


def file_dtype(dtype: str) -> str:
    """The dtype of stored rows in a file."""
    return "uint8" if dtype == INT8_ROWWISE else dtype


def carrier(dtype: str) -> str:
    """The dtype of stored rows in memory."""
    return CARRIERS.get(dtype, file_dtype(dtype))


def encode(rows_RD: Array, dtype: str) -> Array:
    """float32 rows as they are stored, all at once. Facts: what `store` refuses becomes infinite, or any value."""
    rows_RD = np.array(rows_RD, np.float32, order="C")
    with np.errstate(all="ignore"):
        if dtype == FLOAT16:
            return rows_RD.astype(np.float16)
        if dtype == BFLOAT16:
            bits = rows_RD.view(np.uint32)
            rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
            quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x40)
            return np.where(np.isnan(rows_RD), quiet_nan, rounded).astype(np.uint16)
        assert dtype == INT8_ROWWISE, dtype
        return _encode_int8(rows_RD)


def _encode_int8(rows_RD: Array) -> Array:
    num_rows, dim = rows_RD.shape
    stored = np.zeros((num_rows, row_width(INT8_ROWWISE, dim)), np.uint8)
    if rows_RD.size == 0:
        return stored
    low, high = rows_RD.min(1), rows_RD.max(1)
    scale = ((high.astype(np.float64) - low) / 255).astype(np.float32)
    rows_RD -= low[:, None]
    rows_RD /= np.where(scale > 0, scale, np.float32(1))[:, None]
    stored[:, :dim] = np.clip(np.rint(rows_RD, out=rows_RD), 0, 255, out=rows_RD)
    at = tail_offset(dim)
    stored[:, at : at + 4].view(LITTLE)[:, 0] = scale
    stored[:, at + 4 : at + 8].view(LITTLE)[:, 0] = low
    return stored


def decode(stored: Array, dtype: str, embedding_dim: int) -> Array:
    """The float32 values of stored rows: a new array."""
    if dtype == BFLOAT16:
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype != INT8_ROWWISE:
        return stored.astype(np.float32)
    tail = np.array(stored[:, tail_offset(embedding_dim) :]).view(LITTLE)
    values_RD = stored[:, :embedding_dim].astype(np.float32)
    with np.errstate(all="ignore"):
        values_RD *= tail[:, :1]
        values_RD += tail[:, 1:]
    return values_RD


def store(rows_RD: Array, dtype: str, advance: Callable[[int], None] | None = None) -> Stored:
    """float32 rows as they are stored, with the error that this makes. Facts: beside the result it needs a chunk.

    advance(bytes): called after each chunk with the size of the float32 rows that were read.
    Errors: UnstorableError where a finite value becomes infinite, and for `int8_rowwise` where a row is not finite.
    """
    assert sys.byteorder == "little"
    num_rows, dim = rows_RD.shape
    made = np.empty((num_rows, row_width(dtype, dim)), carrier(dtype))
    largest = squares = 0.0
    first, bad = -1, 0
    step = max(1, CHUNK // max(dim, 1))
    for begin in range(0, num_rows, step):
        chunk = np.array(rows_RD[begin : begin + step], np.float32, order="C")
        made[begin : begin + step] = encode(chunk, dtype)
        error, wrong = _compare(chunk, decode(made[begin : begin + step], dtype, dim), dtype)
        if wrong.any():
            first = begin + int(np.argmax(wrong)) if bad == 0 else first
            bad += int(wrong.sum())
        largest = max(largest, float(np.abs(error).max(initial=0.0)))
        squares += float(np.square(error, dtype=np.float64).sum())
        if advance is not None:
            advance(chunk.nbytes)
    if bad:
        why = "has a NaN, an infinity, or a range beyond float32" if dtype == INT8_ROWWISE else f"exceeds {dtype}"
        raise UnstorableError(why, first, bad)
    return Stored(made, largest, float(np.sqrt(squares / max(rows_RD.size, 1))))


def _compare(rows_RD: Array, stored_RD: Array, dtype: str) -> tuple[Array, Array]:
    """The error of each value, and the rows that cannot be stored."""
    with np.errstate(all="ignore"):
        error = stored_RD - rows_RD
    if np.isfinite(error).all():
        return error, np.zeros(len(rows_RD), bool)
    finite = np.isfinite(rows_RD)
    wrong = np.asarray((finite & ~np.isfinite(stored_RD)).any(1))
    if dtype == INT8_ROWWISE:
        wrong |= ~finite.all(1)
    return np.where(np.isfinite(error), error, 0), wrong
