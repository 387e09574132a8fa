"""The values of new rows, as the loops on the CPU draw them.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Legend: N lanes, one row each; K blocks of four values; words: int64 pointers [N] to their tables' words.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.text import any_lane
from colonnade.train.gpu.kernels.hashing import LOW_WORD, unsigned

PHILOX_M0 = tl.constexpr(0xD2511F53)
PHILOX_M1 = tl.constexpr(0xCD9E8D57)
PHILOX_W0 = tl.constexpr(0x9E3779B9)
PHILOX_W1 = tl.constexpr(0xBB67AE85)
QUARTER_TURN = tl.constexpr(0x3FFFFFFF)
WHOLE_ANGLE = tl.constexpr(6.283185307179586)
DRAWS_CONSTANT = tl.constexpr(0)
DRAWS_UNIFORM = tl.constexpr(1)
DRAWS_TRUNCATED = tl.constexpr(3)


@jit
def philox(key, id_, block, attempt):
    """Four random numbers of 32 bits, uint64 [N, K]."""
    zero = id_[:, None] * 0 + unsigned(block * 0)[None, :]
    k0 = (key & LOW_WORD)[:, None] + zero
    k1 = (key >> 32)[:, None] + zero
    c0 = (id_ & LOW_WORD)[:, None] + zero
    c1 = (id_ >> 32)[:, None] + zero
    c2 = unsigned(block)[None, :] + zero
    c3 = zero + attempt
    for _ in tl.static_range(10):
        p0 = c0 * PHILOX_M0
        p1 = c2 * PHILOX_M1
        c0 = (p1 >> 32) ^ c1 ^ k0
        c2 = (p0 >> 32) ^ c3 ^ k1
        c1 = p1 & LOW_WORD
        c3 = p0 & LOW_WORD
        k0 = (k0 + PHILOX_W0) & LOW_WORD
        k1 = (k1 + PHILOX_W1) & LOW_WORD
    return c0, c1, c2, c3


@jit
def normal_of(x, y, quarters: tl.constexpr):
    """float64 [N, K]: a standard normal value of two random numbers; the angle, a quarter turn more or not."""
    radius = tl.sqrt(-2.0 * tl.log((x.to(tl.float64) + 0.5) * 2.0**-32))
    quadrant = (y >> 30) + quarters
    turn = ((y & QUARTER_TURN).to(tl.float64) + 0.5) * 2.0**-32
    turn = tl.where((quadrant & 1) != 0, 0.25 - turn, turn)
    value = radius * tl.sin(turn * WHOLE_ANGLE)
    return tl.where((quadrant & 2) != 0, -value, value)


@jit
def normals(key, id_, block, attempt):
    """Four standard normal values, float64 [N, K]."""
    x0, x1, x2, x3 = philox(key, id_, block, attempt)
    return normal_of(x0, x1, 1), normal_of(x0, x1, 0), normal_of(x2, x3, 1), normal_of(x2, x3, 0)


@jit
def outside(z, low, high):
    """int1 [N, K]: the values out of bounds."""
    return (z < low) | (z > high)


@jit
def any_of(mask):
    """Whether int1 [N, K] holds anywhere."""
    return any_lane(tl.reduce(mask.to(tl.int32), 1, tl.standard._elementwise_max) > 0)


@jit
def number_in(words, place: tl.constexpr, live):
    """float64 [N, 1]: a number of a table."""
    return tl.load(words + place, mask=live, other=0).to(tl.float64, bitcast=True)[:, None]


@jit
def share_of(x, a, b):
    """float32 [N, K]: from a to below b."""
    return a + (x >> 8).to(tl.float32) * 5.9604644775390625e-08 * (b - a)


@jit
def draw_four(words, ids, block, live, NORMAL: tl.constexpr, TRUNCATED: tl.constexpr):
    """Values 4 block to 4 block + 3 of new rows, float32 [N, K]. NORMAL, TRUNCATED: whether a table draws such ones."""
    key = unsigned(tl.load(words + 1, mask=live, other=0))
    kind = tl.load(words + 2, mask=live, other=0)[:, None]
    a = number_in(words, 3, live)
    b = number_in(words, 4, live)
    id_ = unsigned(ids)
    x0, x1, x2, x3 = philox(key, id_, block, 0)
    first = a.to(tl.float32)
    second = b.to(tl.float32)
    v0 = share_of(x0, first, second)
    v1 = share_of(x1, first, second)
    v2 = share_of(x2, first, second)
    v3 = share_of(x3, first, second)
    if NORMAL:
        z0 = normal_of(x0, x1, 1)
        z1 = normal_of(x0, x1, 0)
        z2 = normal_of(x2, x3, 1)
        z3 = normal_of(x2, x3, 0)
        if TRUNCATED:
            bounded = live[:, None] & (kind == DRAWS_TRUNCATED)
            low = number_in(words, 5, live)
            high = number_in(words, 6, live)
            attempt = 0
            o0 = bounded & outside(z0, low, high)
            o1 = bounded & outside(z1, low, high)
            o2 = bounded & outside(z2, low, high)
            o3 = bounded & outside(z3, low, high)
            while any_of(o0 | o1 | o2 | o3):
                attempt += 1
                y0, y1, y2, y3 = normals(key, id_, block, attempt)
                z0 = tl.where(o0, y0, z0)
                z1 = tl.where(o1, y1, z1)
                z2 = tl.where(o2, y2, z2)
                z3 = tl.where(o3, y3, z3)
                o0 = bounded & outside(z0, low, high)
                o1 = bounded & outside(z1, low, high)
                o2 = bounded & outside(z2, low, high)
                o3 = bounded & outside(z3, low, high)
        flat = kind <= DRAWS_UNIFORM
        v0 = tl.where(flat, v0, (a + b * z0).to(tl.float32))
        v1 = tl.where(flat, v1, (a + b * z1).to(tl.float32))
        v2 = tl.where(flat, v2, (a + b * z2).to(tl.float32))
        v3 = tl.where(flat, v3, (a + b * z3).to(tl.float32))
    same = kind == DRAWS_CONSTANT
    return tl.where(same, first, v0), tl.where(same, first, v1), tl.where(same, first, v2), tl.where(same, first, v3)
