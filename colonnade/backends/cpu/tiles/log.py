"""The tile of `log`."""

from __future__ import annotations

import numpy as np

from colonnade.backends.cpu.tiles.registry import Memory, Step, lowering, tile
from colonnade.backends.memory import bits_of_f64, f64_of_bits, kernel, load_f32, store_f32
from colonnade.core.logarithm import LN2_HIGH, LN2_LOW, SQRT2, TERMS
from colonnade.ops.log import Log

FRACTION, ONE = 2**52 - 1, 1023 << 52
INF, NAN = np.float64(np.inf), np.float64(np.nan)
LAST, REST = TERMS[-1], TERMS[-2::-1]


@kernel
def _log(x: float) -> float:
    if not x > 0:
        return -INF if x == 0 else NAN
    if x == INF:
        return x
    bits = bits_of_f64(x)
    k = (bits >> 52) - 1023
    m = f64_of_bits((bits & FRACTION) | ONE)
    if m > SQRT2:
        m *= 0.5
        k += 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = LAST
    for term in REST:
        p = p * z + term
    return k * LN2_HIGH + (2.0 * s * p + k * LN2_LOW)


@tile
@kernel
def log(step: int, source: int, n: int, target: int) -> None:
    """float32, through float64."""
    for i in range(n):
        store_f32(target + 4 * i, np.float32(_log(np.float64(load_f32(source + 4 * i)))))


@lowering(Log)
def lower(op: Log, dtype: str, memory: Memory) -> list[Step]:
    """No parameters."""
    return [Step("log")]
