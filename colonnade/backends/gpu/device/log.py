"""The natural logarithm, by the formula of all backends.   Source: `colonnade.core.logarithm`."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit

LOG_FRACTION = tl.constexpr(2**52 - 1)
LOG_ONE = tl.constexpr(1023 << 52)


@jit
def log_float32(x, numbers, terms: tl.constexpr):
    """float32 [N]. numbers: float64 pointer to sqrt(2), both parts of ln 2, then the terms, the last one first."""
    wide = x.to(tl.float64)
    bits = wide.to(tl.int64, bitcast=True)
    k = (bits >> 52) - 1023
    m = ((bits & LOG_FRACTION) | LOG_ONE).to(tl.float64, bitcast=True)
    high = m > tl.load(numbers)
    k = tl.where(high, k + 1, k)
    m = tl.where(high, m * 0.5, m)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = z * 0.0 + tl.load(numbers + 3)
    for i in range(1, terms):
        p = p * z + tl.load(numbers + 3 + i)
    exponent = k.to(tl.float64)
    found = exponent * tl.load(numbers + 1) + (2.0 * s * p + exponent * tl.load(numbers + 2))
    found = tl.where(wide == float("inf"), wide, found)
    found = tl.where(wide == 0.0, float("-inf"), found)
    return tl.where(wide >= 0.0, found, float("nan")).to(tl.float32)
