"""Rows in blocks, and the values in them.

Legend: N lanes, one row each, as its address (int64); D values of a row, padded to BLOCK.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit

ROW_TABLE = tl.constexpr(1)
"""In int64 words: the table, below the step."""
ROW_COUNT = tl.constexpr(16)
ROW_VALUES = tl.constexpr(32)
FLOAT32_FORM = tl.constexpr(0)
BFLOAT16_FORM = tl.constexpr(1)
FLOAT16_FORM = tl.constexpr(2)


@jit
def row_at(blocks, row, live, num_shift, row_bytes):
    """int64 [N]: the addresses of rows; blocks: those of blocks of 1 << num_shift rows."""
    block = row >> num_shift
    start = tl.load(blocks + block, mask=live, other=0)
    return start + (row - (block << num_shift)) * row_bytes


@jit
def longs(address):
    """Addresses as pointers to int64."""
    return address.to(tl.pointer_type(tl.int64))


@jit
def ints(address):
    """Addresses as pointers to int32."""
    return address.to(tl.pointer_type(tl.int32))


@jit
def floats(address):
    """Addresses as pointers to float32."""
    return address.to(tl.pointer_type(tl.float32))


@jit
def floats_at(rows):
    """Where the values of rows lie, at multiples of 16 bytes."""
    return tl.multiple_of((rows + ROW_VALUES).to(tl.pointer_type(tl.float32)), 16)


@jit
def load_values(rows, k, mask, FORM: tl.constexpr):
    """float32 [N, K]: values k of rows."""
    values = rows[:, None] + ROW_VALUES
    if FORM == BFLOAT16_FORM:
        half = tl.load((values + 2 * k[None, :]).to(tl.pointer_type(tl.uint16)), mask=mask, other=0)
        return (half.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    elif FORM == FLOAT16_FORM:
        half = tl.load((values + 2 * k[None, :]).to(tl.pointer_type(tl.float16)), mask=mask, other=0)
        return half.to(tl.float32)
    else:
        return tl.load(floats_at(rows)[:, None] + k[None, :], mask=mask, other=0)


@jit
def store_values(rows, k, x, mask, FORM: tl.constexpr):
    """Write values k of rows, rounded to the nearest, ties to even."""
    values = rows[:, None] + ROW_VALUES
    if FORM == BFLOAT16_FORM:
        bits = x.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        half = tl.where(x == x, rounded, (bits >> 16) | 0x40)  # NaN stays
        tl.store((values + 2 * k[None, :]).to(tl.pointer_type(tl.uint16)), half.to(tl.uint16), mask=mask)
    elif FORM == FLOAT16_FORM:
        tl.store((values + 2 * k[None, :]).to(tl.pointer_type(tl.float16)), x.to(tl.float16), mask=mask)
    else:
        tl.store(floats_at(rows)[:, None] + k[None, :], x, mask=mask)
