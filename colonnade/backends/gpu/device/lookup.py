"""Rows of a table into slots of an output.

Legend: N lanes, one element each; D values of a row, padded to BLOCK. EXACT: a table's row is BLOCK values.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def total(x):
    """The sum of [N] integers."""
    # `tl.sum` is a compiled function, which an interpreted one cannot call; its combination of two can be named.
    return tl.reduce(x, 0, tl.standard._sum_combine)


@jit
def within(ids, bound, keep):
    """int1 [N]: kept ids that lie in 0 .. bound - 1."""
    wide = ids.to(tl.int64)
    return keep & (wide >= 0) & (wide < bound)


@jit
def counted(ids, bound, keep, status):
    """The same; the number of kept ids that lie outside is added at `status`."""
    inside = within(ids, bound, keep)
    outside = total((keep & ~inside).to(tl.int32))
    if outside > 0:
        tl.atomic_add(status, outside.to(tl.int64))
    return inside


@jit
def look_up(table, ids, mask, dim, row_dim, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    """float32 [N, BLOCK]: `dim` values of the rows `ids`, zeros where `mask` is not set."""
    d = tl.arange(0, BLOCK)
    inside = mask[:, None]
    if not EXACT:
        inside = inside & (d < dim)[None, :]
    at = ids.to(tl.int64)[:, None] * row_dim + d[None, :]
    return tl.load(table + at, mask=inside, other=0.0).to(tl.float32)


@jit
def put(out, stride, row, offset, place, values, live, dim, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    """Stores [N, BLOCK] values at `out[row, offset + place :][:dim]` where `live` is set."""
    d = tl.arange(0, BLOCK)
    inside = live[:, None]
    if not EXACT:
        inside = inside & (d < dim)[None, :]
    first = row.to(tl.int64) * stride + place + offset
    tl.store(out + first[:, None] + d[None, :], values, mask=inside)
