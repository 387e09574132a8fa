"""SipHash-2-4 in numba, over bytes at an address.

Source: Aumasson and Bernstein, 2012; `colonnade.core.siphash` is its reference.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.memory import kernel, load_u8, load_u64
from colonnade.core import siphash as reference

U = np.uint64
START0, START1, START2, START3 = (U(word) for word in reference.START)
LAST = U(0xFF)


@kernel
def _rotated(x: U, bits: int) -> U:
    return (x << U(bits)) | (x >> U(64 - bits))


@kernel
def _round(a: U, b: U, c: U, d: U) -> tuple[U, U, U, U]:
    a, c = a + b, c + d
    b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
    a, c = _rotated(a, 32), c + b
    a = a + d
    b, d = _rotated(b, 17) ^ c, _rotated(d, 21) ^ a
    return a, b, _rotated(c, 32), d


@kernel
def _mixed(a: U, b: U, c: U, d: U, word: U) -> tuple[U, U, U, U]:
    a, b, c, d = _round(a, b, c, d ^ word)
    a, b, c, d = _round(a, b, c, d)
    return a ^ word, b, c, d


@kernel
def siphash64(s: int, n: int, key0: U, key1: U) -> U:
    """The hash of the `n` bytes at address `s`."""
    a, b, c, d = key0 ^ START0, key1 ^ START1, key0 ^ START2, key1 ^ START3
    at = s
    end = s + (n >> 3 << 3)
    while at != end:
        a, b, c, d = _mixed(a, b, c, d, load_u64(at))
        at += 8
    word = U(n) << U(56)
    for k in range(n & 7):
        word |= U(load_u8(end + k)) << U(8 * k)
    a, b, c, d = _mixed(a, b, c, d, word)
    c ^= LAST
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d
