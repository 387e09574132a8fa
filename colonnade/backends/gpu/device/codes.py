"""Rows of 8-bit codes with a scale and a bias each.

Legend: N lanes, one element each; D values of a row, padded to BLOCK.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def look_up_codes(table, ids, mask, dim, first, row_bytes, tail, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    """float32 [N, BLOCK]: `round(round(code * scale) + bias)` of `dim` values from `first` on; else zeros."""
    row = table + ids.to(tl.int64) * tl.multiple_of(row_bytes, 8)
    ends = (row + tail).to(tl.pointer_type(tl.float32))
    scale = tl.load(ends, mask=mask, other=0.0)
    bias = tl.load(ends + 1, mask=mask, other=0.0)
    d = tl.arange(0, BLOCK)
    inside = mask[:, None]
    if not EXACT:
        inside = inside & (d < dim)[None, :]
    code = tl.load(row[:, None] + (d + first)[None, :], mask=inside, other=0)
    return tl.where(inside, code.to(tl.float32) * scale[:, None] + bias[:, None], 0.0)
