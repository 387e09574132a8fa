"""Floats to integers: what does not fit (NaN, out of range) gives the smallest integer."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def float_to_int32(x):
    """int32 [N], toward zero."""
    wide = x.to(tl.float64)
    fits = (wide >= -2147483648.0) & (wide < 2147483648.0)
    return tl.where(fits, tl.where(fits, wide, 0.0).to(tl.int32), -2147483648)


@jit
def float_to_int64(x):
    """int64 [N], toward zero."""
    wide = x.to(tl.float64)
    fits = (wide >= -9223372036854775808.0) & (wide < 9223372036854775808.0)
    return tl.where(fits, tl.where(fits, wide, 0.0).to(tl.int64), -9223372036854775808)
