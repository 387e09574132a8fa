"""Table rows of few bits (`core/quantize.py`), turned into float32 as they are read.

Legend: `form` says how a table's rows are stored, `row` is the address of one, `out` of float32 values.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.intrinsics import (
    LANES,
    add_lanes,
    bf16_lanes,
    bf16_number,
    f16_lanes,
    f16_number,
    kernel,
    lanes,
    load_f32,
    load_i64,
    mul_lanes,
    store_f32,
    store_lanes,
    u8_lanes,
    u8_number,
)
from colonnade.backends.cpu.rows import copy_row
from colonnade.core.quantize import ALIGNMENT


@kernel
def _widen_f16(row: int, n: int, out: int) -> None:
    k = 0
    while k + LANES <= n:
        store_lanes(out + 4 * k, f16_lanes(row + 2 * k))
        k += LANES
    while k < n:
        store_f32(out + 4 * k, f16_number(row + 2 * k))
        k += 1


@kernel
def _widen_bf16(row: int, n: int, out: int) -> None:
    k = 0
    while k + LANES <= n:
        store_lanes(out + 4 * k, bf16_lanes(row + 2 * k))
        k += LANES
    while k < n:
        store_f32(out + 4 * k, bf16_number(row + 2 * k))
        k += 1


@kernel
def _widen_int8(codes: int, scale: np.float32, bias: np.float32, n: int, out: int) -> None:
    k = 0
    while k + LANES <= n:
        store_lanes(out + 4 * k, add_lanes(mul_lanes(u8_lanes(codes + k), lanes(scale)), lanes(bias)))
        k += LANES
    while k < n:
        store_f32(out + 4 * k, u8_number(codes + k) * scale + bias)
        k += 1


@kernel
def widen(form: int, row: int, begin: int, n: int, dim: int, out: int) -> None:
    """`out` = values begin .. begin + n - 1 of a row of `dim`. Facts: not for rows of float32."""
    if form == w.FORM_INT8:
        tail = row + (dim + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        _widen_int8(row + begin, load_f32(tail), load_f32(tail + 4), n, out)
    elif form == w.FORM_F16:
        _widen_f16(row + 2 * begin, n, out)
    else:
        _widen_bf16(row + 2 * begin, n, out)


@kernel
def put_row(d: int, row: int, out: int) -> None:
    """`out = row`, whatever the form of the column's table."""
    dim, form = load_i64(d + w.DIM), load_i64(d + w.FORM)
    if form == w.FORM_F32:
        copy_row(row, out, dim)
    else:
        widen(form, row, 0, dim, dim, out)
