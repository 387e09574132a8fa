"""Fingerprint64 in numba, over bytes at an address.

Source: FarmHash (farmhashna::Hash64); `colonnade.core.fingerprint` is its reference.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.memory import kernel, load_u8, load_u32, load_u64
from colonnade.core import fingerprint as reference

U = np.uint64
K0, K1, K2 = U(reference.K0), U(reference.K1), U(reference.K2)


@kernel
def _rotate(x: U, bits: int) -> U:
    return (x >> U(bits)) | (x << U(64 - bits))


@kernel
def _shift_mix(x: U) -> U:
    return x ^ (x >> U(47))


@kernel
def _mix16(u: U, v: U, factor: U) -> U:
    a = _shift_mix((u ^ v) * factor)
    b = _shift_mix((v ^ a) * factor)
    return b * factor


@kernel
def _upto16(s: int, n: int) -> U:
    length = U(n)
    if n >= 8:
        factor = K2 + length * U(2)
        a = load_u64(s) + K2
        b = load_u64(s + n - 8)
        return _mix16(_rotate(b, 37) * factor + a, (_rotate(a, 25) + b) * factor, factor)
    if n >= 4:
        return _mix16(length + (U(load_u32(s)) << U(3)), U(load_u32(s + n - 4)), K2 + length * U(2))
    if n > 0:
        y = U(load_u8(s)) + (U(load_u8(s + (n >> 1))) << U(8))
        z = length + (U(load_u8(s + n - 1)) << U(2))
        return _shift_mix((y * K2) ^ (z * K0)) * K2
    return K2


@kernel
def _upto32(s: int, n: int) -> U:
    factor = K2 + U(n) * U(2)
    a = load_u64(s) * K1
    b = load_u64(s + 8)
    c = load_u64(s + n - 8) * factor
    d = load_u64(s + n - 16) * K2
    return _mix16(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + K2, 18) + c, factor)


@kernel
def _upto64(s: int, n: int) -> U:
    factor = K2 + U(n) * U(2)
    a = load_u64(s) * K2
    b = load_u64(s + 8)
    c = load_u64(s + n - 8) * factor
    d = load_u64(s + n - 16) * K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _mix16(y, a + _rotate(b + K2, 18) + c, factor)
    e = load_u64(s + 16) * factor
    f = load_u64(s + 24)
    g = (y + load_u64(s + n - 32)) * factor
    h = (z + load_u64(s + n - 24)) * factor
    return _mix16(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, factor)


@kernel
def _weak32(at: int, a: U, b: U) -> tuple[U, U]:
    a = a + load_u64(at)
    z = load_u64(at + 24)
    b = _rotate(b + a + z, 21)
    c = a
    a = a + load_u64(at + 8) + load_u64(at + 16)
    b = b + _rotate(a, 44)
    return a + z, b + c


@kernel
def _long(s: int, n: int) -> U:
    x = U(81)
    y = x * K1 + U(113)
    z = _shift_mix(y * K2 + U(113)) * K2
    v0, v1, w0, w1 = U(0), U(0), U(0), U(0)
    x = x * K2 + load_u64(s)
    at = s
    end = s + ((n - 1) >> 6 << 6)
    while at != end:
        x = _rotate(x + y + v0 + load_u64(at + 8), 37) * K1
        y = _rotate(y + v1 + load_u64(at + 48), 42) * K1
        x ^= w1
        y += v0 + load_u64(at + 40)
        z = _rotate(z + w0, 33) * K1
        v0, v1 = _weak32(at, v1 * K1, x + w0)
        w0, w1 = _weak32(at + 32, z + w1, y + load_u64(at + 16))
        z, x = x, z
        at += 64
    factor = K1 + ((z & U(0xFF)) << U(1))
    at = s + n - 64
    w0 += U((n - 1) & 63)
    v0 += w0
    w0 += v0
    x = _rotate(x + y + v0 + load_u64(at + 8), 37) * factor
    y = _rotate(y + v1 + load_u64(at + 48), 42) * factor
    x ^= w1 * U(9)
    y += v0 * U(9) + load_u64(at + 40)
    z = _rotate(z + w0, 33) * factor
    v0, v1 = _weak32(at, v1 * factor, x + w0)
    w0, w1 = _weak32(at + 32, z + w1, y + load_u64(at + 16))
    z, x = x, z
    low = _mix16(v0, w0, factor) + _shift_mix(y) * K0 + z
    return _mix16(low, _mix16(v1, w1, factor) + x, factor)


@kernel
def fingerprint64(s: int, n: int) -> U:
    """The fingerprint of the `n` bytes at address `s`."""
    if n <= 16:
        return _upto16(s, n)
    if n <= 32:
        return _upto32(s, n)
    if n <= 64:
        return _upto64(s, n)
    return _long(s, n)
