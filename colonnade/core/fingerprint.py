"""Fingerprint64 of one string, in Python's integers, and of many, in numpy's: the reference for every backend's hash.

Facts: the formulas are written once. A *text* is a byte string, or `_Many` strings of one form; then words are arrays
of uint64, which wrap around as the masks do.
Source: FarmHash (farmhashna::Hash64), the hash behind StringToHashBucketFast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

MASK = (1 << 64) - 1
K0 = 0xC3A5C85C97CB3127
K1 = 0xB492B66FBE98F273
K2 = 0x9AE16A3B2F90404F

Word = Any
"""An int of 64 bits, or an array of one uint64 a string."""


class _Many:
    """Strings in joined bytes, each from a place of its own."""

    def __init__(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> None:
        self._data = data
        self._starts = starts

    def read(self, at: Word, width: int) -> Word:
        """`width` bytes from `at` of each string, the first the lowest."""
        size = max(len(self._data) - width + 1, 0)
        # A view of a word at every byte: numpy reads unaligned words.
        words: Word = np.ndarray(size, f"<u{width}", self._data, strides=(1,))
        return words[self._starts + np.asarray(at, np.uint64).astype(np.int64)].astype(np.uint64)


def _read(s: bytes | _Many, at: Word, width: int) -> Word:
    return s.read(at, width) if isinstance(s, _Many) else int.from_bytes(s[at : at + width], "little")


def _word(s: bytes | _Many, at: Word) -> Word:
    return _read(s, at, 8)


def _half(s: bytes | _Many, at: Word) -> Word:
    return _read(s, at, 4)


def _byte(s: bytes | _Many, at: Word) -> Word:
    return _read(s, at, 1)


def _rotate(x: Word, bits: int) -> Word:
    return ((x >> bits) | (x << (64 - bits))) & MASK


def _shift_mix(x: Word) -> Word:
    return x ^ (x >> 47)


def _mix16(u: Word, v: Word, factor: Word) -> Word:
    a = _shift_mix((u ^ v) * factor & MASK)
    b = _shift_mix((v ^ a) * factor & MASK)
    return b * factor & MASK


def _empty(s: bytes | _Many, n: Word) -> Word:
    return K2


def _upto3(s: bytes | _Many, n: Word) -> Word:
    y = _byte(s, 0) + (_byte(s, n >> 1) << 8)
    z = n + (_byte(s, n - 1) << 2)
    return _shift_mix((y * K2 ^ z * K0) & MASK) * K2 & MASK


def _upto7(s: bytes | _Many, n: Word) -> Word:
    factor = K2 + n * 2 & MASK
    return _mix16(n + (_half(s, 0) << 3) & MASK, _half(s, n - 4), factor)


def _upto16(s: bytes | _Many, n: Word) -> Word:
    factor = K2 + n * 2 & MASK
    a = _word(s, 0) + K2 & MASK
    b = _word(s, n - 8)
    c = _rotate(b, 37) * factor + a & MASK
    d = (_rotate(a, 25) + b) * factor & MASK
    return _mix16(c, d, factor)


def _upto32(s: bytes | _Many, n: Word) -> Word:
    factor = K2 + n * 2 & MASK
    a = _word(s, 0) * K1 & MASK
    b = _word(s, 8)
    c = _word(s, n - 8) * factor & MASK
    d = _word(s, n - 16) * K2 & MASK
    return _mix16(
        _rotate(a + b & MASK, 43) + _rotate(c, 30) + d & MASK, a + _rotate(b + K2 & MASK, 18) + c & MASK, factor
    )


def _upto64(s: bytes | _Many, n: Word) -> Word:
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


def _weak32(s: bytes | _Many, at: Word, a: Word, b: Word) -> tuple[Word, Word]:
    w, x, y, z = (_word(s, at + k) for k in (0, 8, 16, 24))
    a = a + w & MASK
    b = _rotate(b + a + z & MASK, 21)
    c = a
    a = a + x + y & MASK
    b = b + _rotate(a, 44) & MASK
    return a + z & MASK, b + c & MASK


def _long(s: bytes | _Many, n: Word, blocks: int) -> Word:
    """blocks: of 64 bytes before the last 64."""
    x: Word = 81
    y: Word = 81 * K1 + 113 & MASK
    z: Word = _shift_mix(y * K2 + 113 & MASK) * K2 & MASK
    v: tuple[Word, Word] = (0, 0)
    w: tuple[Word, Word] = (0, 0)
    x = (x * K2 & MASK) + _word(s, 0) & MASK
    for at in range(0, 64 * blocks, 64):
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


_FORMS: tuple[tuple[int, Callable[[Any, Word], Word]], ...] = (
    (0, _empty),
    (3, _upto3),
    (7, _upto7),
    (16, _upto16),
    (32, _upto32),
    (64, _upto64),
)
"""The formula of strings up to each length; longer ones go block by block."""


def fingerprint64(s: bytes) -> int:
    """The 64-bit fingerprint of a byte string, as an unsigned integer."""
    n = len(s)
    for most, form in _FORMS:
        if n <= most:
            return int(form(s, n))
    return int(_long(s, n, (n - 1) // 64))


def fingerprints64(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """The fingerprints of strings that lie in joined bytes."""
    found = np.empty(len(starts), np.uint64)
    least = 0
    for most, form in _FORMS:
        at = np.flatnonzero((lengths >= least) & (lengths <= most))
        if len(at):
            found[at] = form(_Many(data, starts[at]), lengths[at].astype(np.uint64))
        least = most + 1
    blocks = np.where(lengths >= least, (lengths - 1) // 64, 0)
    for count in np.unique(blocks[blocks > 0]).tolist():
        at = np.flatnonzero(blocks == count)
        found[at] = _long(_Many(data, starts[at]), lengths[at].astype(np.uint64), count)
    return found


CAT = 0xC6A4A7935BD1E995


def fingerprint_cat(a: int, b: int) -> int:
    """One fingerprint of two, in order. Source: TensorFlow's FingerprintCat64."""
    result = (a ^ CAT) ^ (_shift_mix(b * CAT & MASK) * CAT & MASK)
    result = result * CAT & MASK
    result = _shift_mix(result) * CAT & MASK
    return int(_shift_mix(result))
