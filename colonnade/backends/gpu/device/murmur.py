"""MurmurHash64A of strings in memory, and of integers.   Legend: N lanes.   Source: MurmurHash2, 64 bits, seed 0."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.text import greatest, low_bytes, word_at

MURMUR_FACTOR = tl.constexpr(0xC6A4A7935BD1E995)
MURMUR_EIGHT = tl.constexpr(8 * 0xC6A4A7935BD1E995 % 2**64)


@jit
def murmur_begun(word, num):
    """The state before the first of so many words; `word` says its shape."""
    return (word * 0 + 8 * num) * MURMUR_FACTOR


@jit
def murmur_more(h, word):
    """The state after another word."""
    k = word * MURMUR_FACTOR
    return (h ^ ((k ^ (k >> 47)) * MURMUR_FACTOR)) * MURMUR_FACTOR


@jit
def murmur_ended(h):
    """The hash of a state, as int64."""
    h = (h ^ (h >> 47)) * MURMUR_FACTOR
    return (h ^ (h >> 47)).to(tl.int64, bitcast=True)


@jit
def murmur64(text, start, length, live):
    """int64 [N]: the hash of each string, arbitrary where not live."""
    h = length.to(tl.uint64) * MURMUR_FACTOR
    words = length >> 3
    most = greatest(tl.where(live, words, 0).to(tl.int32))
    word = most * 0
    while word < most:
        active = live & (word < words)
        h = tl.where(active, murmur_more(h, word_at(text, start + word * 8, active)), h)
        word += 1
    rest = length & 7
    last = word_at(text, start + words * 8, live & (rest > 0)) & low_bytes(rest)
    h = tl.where(rest > 0, (h ^ last) * MURMUR_FACTOR, h)
    return murmur_ended(h)


@jit
def murmur64_int(x):
    """int64 [N]: the hash of the eight bytes of int64 x."""
    word = x.to(tl.uint64, bitcast=True)
    return murmur_ended(murmur_more(word * 0 + MURMUR_EIGHT, word))
