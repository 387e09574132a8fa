"""The natural logarithm as all backends compute it: the same bits everywhere.

    ln(2^k * m) = k * LN2_HIGH + (2 s P(s^2) + k * LN2_LOW),   s = (m - 1) / (m + 1),   P(z) = sum of z^i / (2i + 1)

with sqrt(1/2) < m <= sqrt(2), every operation in float64 and rounded by itself. Libraries differ from one another in
the last bit, and a bucketized logarithm would give one id in training and another one in serving.
Units: |s| <= 0.1716, so that the terms left out are below 2^-57 of the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

TERMS = tuple(1.0 / n for n in range(1, 24, 2))
SQRT2 = float.fromhex("0x1.6a09e667f3bcdp+0")
LN2_HIGH = float.fromhex("0x1.62e42fefa4000p-1")
"""Few bits: a product with an exponent is exact."""
LN2_LOW = float.fromhex("-0x1.8432a1b0e2634p-43")


def log64(x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Of floats whose float64 are no denormals; -inf of zeros, NaN below."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        x = x.astype(np.float64)
    bits = x.view(np.int64)
    k = (bits >> 52) - 1023
    m = ((bits & (2**52 - 1)) | (1023 << 52)).view(np.float64)
    high = m > SQRT2
    m, k = np.where(high, m * 0.5, m), k + high
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = np.full_like(s, TERMS[-1])
    for term in reversed(TERMS[:-1]):
        p = p * z + term
    found = k * LN2_HIGH + (2.0 * s * p + k * LN2_LOW)
    found = np.where(x == np.inf, np.inf, np.where(x > 0, found, np.nan))
    return np.asarray(np.where(x == 0, -np.inf, found), np.float64)
