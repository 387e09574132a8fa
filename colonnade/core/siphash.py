"""SipHash-2-4 of one string, in Python's integers: the reference for every backend's keyed hash.

Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; the hash behind StringToHashBucketStrong.
"""

from __future__ import annotations

MASK = (1 << 64) - 1
START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
"""What the keys are mixed with."""

State = tuple[int, int, int, int]


def siphash64(data: bytes, key0: int, key1: int) -> int:
    """The hash of the bytes under a key of two words, which may be given as signed ones."""
    k0, k1 = key0 & MASK, key1 & MASK
    v: State = (k0 ^ START[0], k1 ^ START[1], k0 ^ START[2], k1 ^ START[3])
    whole = len(data) & -8
    for at in range(0, whole, 8):
        v = _mixed(v, int.from_bytes(data[at : at + 8], "little"))
    v = _mixed(v, int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    v = (v[0], v[1], v[2] ^ 0xFF, v[3])
    for _ in range(4):
        v = _round(*v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _mixed(v: State, word: int) -> State:
    a, b, c, d = _round(*_round(v[0], v[1], v[2], v[3] ^ word))
    return a ^ word, b, c, d


def _round(a: int, b: int, c: int, d: int) -> State:
    a, c = (a + b) & MASK, (c + d) & MASK
    b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
    a, c = _rotated(a, 32), (c + b) & MASK
    a = (a + d) & MASK
    b, d = _rotated(b, 17) ^ c, _rotated(d, 21) ^ a
    return a, b, _rotated(c, 32), d


def _rotated(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & MASK
