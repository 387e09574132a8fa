"""The unsigned remainder by a divisor that is data."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def mod(x, divisor, reciprocal):
    """int64 [N]: uint64(x) % divisor, given `min(floor(2^64 / divisor), 2^64 - 1)`; 1 <= divisor < 2^63.

    The quotient by the reciprocal is at most 2 too small, so that two corrections are enough.
    """
    value = x.to(tl.uint64, bitcast=True)
    d = tl.full(value.shape, 0, tl.uint64) + divisor.to(tl.uint64, bitcast=True)
    r = tl.full(value.shape, 0, tl.uint64) + reciprocal.to(tl.uint64, bitcast=True)
    rest = value - tl.umulhi(value, r) * d
    rest = tl.where(rest >= d, rest - d, rest)
    rest = tl.where(rest >= d, rest - d, rest)
    return rest.to(tl.int64, bitcast=True)
