"""Fingerprint64 in plain Python: the reference for every backend's hash.

Source: FarmHash (farmhashna::Hash64), the hash behind StringToHashBucketFast.
"""

from __future__ import annotations

MASK = (1 << 64) - 1
K0 = 0xC3A5C85C97CB3127
K1 = 0xB492B66FBE98F273
K2 = 0x9AE16A3B2F90404F


def _word(s: bytes, at: int) -> int:
    return int.from_bytes(s[at : at + 8], "little")


def _half(s: bytes, at: int) -> int:
    return int.from_bytes(s[at : at + 4], "little")


def _rotate(x: int, bits: int) -> int:
    return ((x >> bits) | (x << (64 - bits))) & MASK


def _shift_mix(x: int) -> int:
    return x ^ (x >> 47)


def _mix16(u: int, v: int, factor: int) -> int:
    a = _shift_mix((u ^ v) * factor & MASK)
    b = _shift_mix((v ^ a) * factor & MASK)
    return b * factor & MASK


def _upto16(s: bytes) -> int:
    n = len(s)
    if n >= 8:
        factor = K2 + n * 2 & MASK
        a = _word(s, 0) + K2 & MASK
        b = _word(s, n - 8)
        c = _rotate(b, 37) * factor + a & MASK
        d = (_rotate(a, 25) + b) * factor & MASK
        return _mix16(c, d, factor)
    if n >= 4:
        factor = K2 + n * 2 & MASK
        return _mix16(n + (_half(s, 0) << 3) & MASK, _half(s, n - 4), factor)
    if n > 0:
        y = s[0] + (s[n >> 1] << 8)
        z = n + (s[n - 1] << 2)
        return _shift_mix((y * K2 ^ z * K0) & MASK) * K2 & MASK
    return K2


def _upto32(s: bytes) -> int:
    n = len(s)
    factor = K2 + n * 2 & MASK
    a = _word(s, 0) * K1 & MASK
    b = _word(s, 8)
    c = _word(s, n - 8) * factor & MASK
    d = _word(s, n - 16) * K2 & MASK
    return _mix16(
        _rotate(a + b & MASK, 43) + _rotate(c, 30) + d & MASK, a + _rotate(b + K2 & MASK, 18) + c & MASK, factor
    )


def _upto64(s: bytes) -> int:
    n = len(s)
    factor = K2 + n * 2 & MASK
    a = _word(s, 0) * K2 & MASK
    b = _word(s, 8)
    c = _word(s, n - 8) * factor & MASK
    d = _word(s, n - 16) * K2 & MASK
    y = _rotate(a + b & MASK, 43) + _rotate(c, 30) + d & MASK
    z = _mix16(y, a + _rotate(b + K2 & MASK, 18) + c & MASK, factor)
    e = _word(s, 16) * factor & MASK
    f = _word(s, 24)
    g = (y + _word(s, n - 32)) * factor & MASK
    h = (z + _word(s, n - 24)) * factor & MASK
    return _mix16(
        _rotate(e + f & MASK, 43) + _rotate(g, 30) + h & MASK, e + _rotate(f + a & MASK, 18) + g & MASK, factor
    )


def _weak32(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(s, at + k) for k in (0, 8, 16, 24))
    a = a + w & MASK
    b = _rotate(b + a + z & MASK, 21)
    c = a
    a = a + x + y & MASK
    b = b + _rotate(a, 44) & MASK
    return a + z & MASK, b + c & MASK


def fingerprint64(s: bytes) -> int:
    """The 64-bit fingerprint of a byte string, as an unsigned integer."""
    n = len(s)
    if n <= 64:
        return _upto16(s) if n <= 16 else _upto32(s) if n <= 32 else _upto64(s)
    x, y = 81, 81 * K1 + 113 & MASK
    z = _shift_mix(y * K2 + 113 & MASK) * K2 & MASK
    v, w = (0, 0), (0, 0)
    x = x * K2 + _word(s, 0) & MASK
    end = (n - 1) // 64 * 64
    for at in range(0, end, 64):
        x = _rotate(x + y + v[0] + _word(s, at + 8) & MASK, 37) * K1 & MASK
        y = _rotate(y + v[1] + _word(s, at + 48) & MASK, 42) * K1 & MASK
        x ^= w[1]
        y = y + v[0] + _word(s, at + 40) & MASK
        z = _rotate(z + w[0] & MASK, 33) * K1 & MASK
        v = _weak32(s, at, v[1] * K1 & MASK, x + w[0] & MASK)
        w = _weak32(s, at + 32, z + w[1] & MASK, y + _word(s, at + 16) & MASK)
        z, x = x, z
    factor = K1 + ((z & 0xFF) << 1) & MASK
    at = n - 64
    w = (w[0] + ((n - 1) & 63) & MASK, w[1])
    v = (v[0] + w[0] & MASK, v[1])
    w = (w[0] + v[0] & MASK, w[1])
    x = _rotate(x + y + v[0] + _word(s, at + 8) & MASK, 37) * factor & MASK
    y = _rotate(y + v[1] + _word(s, at + 48) & MASK, 42) * factor & MASK
    x ^= w[1] * 9 & MASK
    y = y + v[0] * 9 + _word(s, at + 40) & MASK
    z = _rotate(z + w[0] & MASK, 33) * factor & MASK
    v = _weak32(s, at, v[1] * factor & MASK, x + w[0] & MASK)
    w = _weak32(s, at + 32, z + w[1] & MASK, y + _word(s, at + 16) & MASK)
    z, x = x, z
    low = _mix16(v[0], w[0], factor) + _shift_mix(y) * K0 + z & MASK
    return _mix16(low, _mix16(v[1], w[1], factor) + x & MASK, factor)


CAT = 0xC6A4A7935BD1E995


def fingerprint_cat(a: int, b: int) -> int:
    """One fingerprint of two, in order. Source: TensorFlow's FingerprintCat64."""
    result = (a ^ CAT) ^ (_shift_mix(b * CAT & MASK) * CAT & MASK)
    result = result * CAT & MASK
    result = _shift_mix(result) * CAT & MASK
    return _shift_mix(result)
