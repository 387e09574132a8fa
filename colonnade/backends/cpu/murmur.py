"""MurmurHash64A in numba, over bytes at an address.

Source: MurmurHash2; `colonnade.core.murmur` is its reference.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.memory import kernel, load_u8, load_u64
from colonnade.core import murmur as reference

U = np.uint64
FACTOR, SHIFT = U(reference.FACTOR), U(reference.SHIFT)


@kernel
def murmur_begun(n: int) -> U:
    """The state before the first of n bytes."""
    return U(n) * FACTOR


@kernel
def murmur_more(h: U, word: U) -> U:
    """The state after another word."""
    k = word * FACTOR
    return (h ^ ((k ^ (k >> SHIFT)) * FACTOR)) * FACTOR


@kernel
def murmur_ended(h: U) -> U:
    """The hash of a state."""
    h = (h ^ (h >> SHIFT)) * FACTOR
    return h ^ (h >> SHIFT)


@kernel
def murmur64(s: int, n: int) -> U:
    """The hash of the `n` bytes at address `s`."""
    h = murmur_begun(n)
    end = s + (n >> 3 << 3)
    at = s
    while at != end:
        h = murmur_more(h, load_u64(at))
        at += 8
    if n & 7:
        word = U(0)
        for k in range(n & 7):
            word |= U(load_u8(end + k)) << U(8 * k)
        h = (h ^ word) * FACTOR
    return murmur_ended(h)
