"""Table rows of few bits (`core/quantize.py`), turned into float32 as they are read.

Legend: `form` says how a table's rows are stored, `row` is the address of one, `out` of float32 values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.intrinsics import bf16_lanes, bf16_number, f16_lanes, f16_number, u8_lanes, u8_number
from colonnade.backends.cpu.rows import Block, Number, summing
from colonnade.backends.lanes import LANES, add_lanes, copy_row, lanes, mul_lanes, store_lanes
from colonnade.backends.memory import kernel, load_f32, load_i64, store_f32
from colonnade.core.quantize import ALIGNMENT


@kernel
def _f16_block(row: int, tail: int, k: int) -> Any:
    return f16_lanes(row + 2 * k)


@kernel
def _f16_number(row: int, tail: int, k: int) -> np.float32:
    return f16_number(row + 2 * k)


@kernel
def _bf16_block(row: int, tail: int, k: int) -> Any:
    return bf16_lanes(row + 2 * k)


@kernel
def _bf16_number(row: int, tail: int, k: int) -> np.float32:
    return bf16_number(row + 2 * k)


@kernel
def _int8_block(row: int, tail: int, k: int) -> Any:
    scaled = mul_lanes(u8_lanes(row + k), lanes(load_f32(row + tail)))
    return add_lanes(scaled, lanes(load_f32(row + tail + 4)))


@kernel
def _int8_number(row: int, tail: int, k: int) -> np.float32:
    return u8_number(row + k) * load_f32(row + tail) + load_f32(row + tail + 4)


def _widening(block: Block, number: Number) -> Callable[[int, int, int, int, int], None]:
    @kernel
    def copy(row: int, tail: int, begin: int, n: int, out: int) -> None:
        k = 0
        while k + LANES <= n:
            store_lanes(out + 4 * k, block(row, tail, begin + k))
            k += LANES
        while k < n:
            store_f32(out + 4 * k, number(row, tail, begin + k))
            k += 1

    return copy


_widen_f16, _add_f16 = _widening(_f16_block, _f16_number), summing(_f16_block, _f16_number)
_widen_bf16, _add_bf16 = _widening(_bf16_block, _bf16_number), summing(_bf16_block, _bf16_number)
_widen_int8, _add_int8 = _widening(_int8_block, _int8_number), summing(_int8_block, _int8_number)


@kernel
def _tail(dim: int) -> int:
    return (dim + ALIGNMENT - 1) & -ALIGNMENT


@kernel
def widen(form: int, row: int, begin: int, n: int, dim: int, out: int) -> None:
    """`out` = values begin .. begin + n - 1 of a row of `dim`. Facts: not for rows of float32."""
    if form == w.FORM_INT8:
        _widen_int8(row, _tail(dim), begin, n, out)
    elif form == w.FORM_F16:
        _widen_f16(row, 0, begin, n, out)
    else:
        _widen_bf16(row, 0, begin, n, out)


@kernel
def add_narrow(form: int, rows: int, n: int, lead: int, out: int, dim: int, how: int, factor: np.float32) -> None:
    """`add_rows` for rows of few bits."""
    if form == w.FORM_INT8:
        _add_int8(rows, n, lead, _tail(dim), out, dim, how, factor)
    elif form == w.FORM_F16:
        _add_f16(rows, n, lead, 0, out, dim, how, factor)
    else:
        _add_bf16(rows, n, lead, 0, out, dim, how, factor)


@kernel
def put_row(d: int, row: int, out: int) -> None:
    """`out = row`, whatever the form of the column's table."""
    dim, form = load_i64(d + w.DIM), load_i64(d + w.FORM)
    if form == w.FORM_F32:
        copy_row(row, out, dim)
    else:
        widen(form, row, 0, dim, dim, out)
