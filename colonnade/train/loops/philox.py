"""The values of new rows: a function of a table's key, an id and the place in the row alone.

Philox 4x32-10 with the key of seed and table, counted by (id, block of four values, attempt). Uniform values have the
same bits everywhere; normal ones are made in float64 (Box-Muller) and rounded once.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Legend: `table` is the address of a table's words.
"""

from __future__ import annotations

import math

import numpy as np

from colonnade.backends.memory import kernel, load_f64, load_i64, load_u64
from colonnade.train.loops import words as w

U64 = np.uint64
M0, M1 = U64(0xD2511F53), U64(0xCD9E8D57)
W0, W1 = U64(0x9E3779B9), U64(0xBB67AE85)
LOW32, BITS = U64(0xFFFFFFFF), U64(32)
ROUNDS = 10
QUARTER = U64(0x3FFFFFFF)


@kernel
def philox(key: np.uint64, id_: int, block: int, attempt: int) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Four random numbers of 32 bits."""
    k0, k1 = key & LOW32, key >> BITS
    c0, c1 = U64(id_) & LOW32, U64(id_) >> BITS
    c2, c3 = U64(block) & LOW32, U64(attempt) & LOW32
    for _ in range(ROUNDS):
        p0, p1 = M0 * c0, M1 * c2
        c0, c1, c2, c3 = (p1 >> BITS) ^ c1 ^ k0, p1 & LOW32, (p0 >> BITS) ^ c3 ^ k1, p0 & LOW32
        k0, k1 = (k0 + W0) & LOW32, (k1 + W1) & LOW32
    return c0, c1, c2, c3


@kernel
def _pair(x: np.uint64, y: np.uint64, second: bool) -> float:
    """One of the two standard normal values of two random numbers. Facts: the angle is reduced exactly to a quarter."""
    radius = math.sqrt(-2.0 * math.log((float(x) + 0.5) * 2.0**-32))
    quadrant = np.int64(y >> U64(30)) + (0 if second else 1)  # cos(a) = sin(a + a quarter turn)
    turn = (float(y & QUARTER) + 0.5) * 2.0**-32
    if quadrant & 1:
        turn = 0.25 - turn
    value = radius * math.sin(2.0 * math.pi * turn)
    return -value if quadrant & 2 else value


@kernel
def _normal(key: np.uint64, id_: int, k: int, attempt: int) -> float:
    x0, x1, x2, x3 = philox(key, id_, k >> 2, attempt)
    return _pair(x0, x1, k & 1 == 1) if k & 3 < 2 else _pair(x2, x3, k & 1 == 1)


@kernel
def _within(key: np.uint64, id_: int, k: int, z: float, low: float, high: float) -> float:
    """z, or the first normal value of further attempts that lies within the bounds."""
    attempt = 0
    while z < low or z > high:
        attempt += 1
        z = _normal(key, id_, k, attempt)
    return z


@kernel
def _share(x: np.uint64, a: np.float32, b: np.float32) -> np.float32:
    return a + np.float32(x >> U64(8)) * np.float32(2.0**-24) * (b - a)


@kernel
def draw_four(table: int, id_: int, block: int) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """Values 4 block to 4 block + 3 of a new row."""
    kind, a, b = load_i64(table + w.KIND), load_f64(table + w.A), load_f64(table + w.B)
    if kind == w.CONSTANT:
        value = np.float32(a)
        return value, value, value, value
    key = load_u64(table + w.DRAW_KEY)
    x0, x1, x2, x3 = philox(key, id_, block, 0)
    if kind == w.UNIFORM:
        low, high = np.float32(a), np.float32(b)
        return _share(x0, low, high), _share(x1, low, high), _share(x2, low, high), _share(x3, low, high)
    z0, z1, z2, z3 = _pair(x0, x1, False), _pair(x0, x1, True), _pair(x2, x3, False), _pair(x2, x3, True)
    if kind == w.TRUNCATED:
        least, most, k = load_f64(table + w.LOW), load_f64(table + w.HIGH), 4 * block
        z0, z1 = _within(key, id_, k, z0, least, most), _within(key, id_, k + 1, z1, least, most)
        z2, z3 = _within(key, id_, k + 2, z2, least, most), _within(key, id_, k + 3, z3, least, most)
    return np.float32(a + b * z0), np.float32(a + b * z1), np.float32(a + b * z2), np.float32(a + b * z3)
