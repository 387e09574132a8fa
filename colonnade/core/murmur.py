"""MurmurHash64A of one string, and of words, in Python's and numpy's integers: the reference for every backend's hash.

Source: MurmurHash2, the 64-bit variant for 64-bit machines, little endian.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MASK = (1 << 64) - 1
FACTOR = 0xC6A4A7935BD1E995
SHIFT = 47

Words = npt.NDArray[np.uint64]


def murmur64(s: bytes, seed: int = 0) -> int:
    """The 64-bit hash of a byte string, as an unsigned integer."""
    n = len(s)
    h = seed ^ (n * FACTOR & MASK)
    for at in range(0, n - n % 8, 8):
        k = int.from_bytes(s[at : at + 8], "little") * FACTOR & MASK
        k = (k ^ (k >> SHIFT)) * FACTOR & MASK
        h = (h ^ k) * FACTOR & MASK
    if n % 8:
        h = (h ^ int.from_bytes(s[n - n % 8 :], "little")) * FACTOR & MASK
    h = (h ^ (h >> SHIFT)) * FACTOR & MASK
    return h ^ (h >> SHIFT)


def murmur_words(words: Sequence[Words]) -> Words:
    """The hash of the bytes of one word of each array, in order, little endian; elementwise."""
    factor, shift = np.uint64(FACTOR), np.uint64(SHIFT)
    h: Words = np.full(words[0].shape, 8 * len(words) * FACTOR & MASK, np.uint64)
    with np.errstate(over="ignore"):
        for word in words:
            k = word * factor
            k = (k ^ (k >> shift)) * factor
            h = (h ^ k) * factor
        h = (h ^ (h >> shift)) * factor
        return np.asarray(h ^ (h >> shift), np.uint64)
