"""Fingerprint64 of strings in memory.

Strings of at most 64 bytes are hashed from their first and last words; longer ones also in chunks of 64. What few
strings need runs only where a lane of the block needs it.   Source: FarmHash (farmhashna::Hash64).
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.text import greatest, word_at

K0 = tl.constexpr(0xC3A5C85C97CB3127)
K1 = tl.constexpr(0xB492B66FBE98F273)
K2 = tl.constexpr(0x9AE16A3B2F90404F)
SEED_X = tl.constexpr(81 * 0x9AE16A3B2F90404F % 2**64)
SEED_Y = tl.constexpr((81 * 0xB492B66FBE98F273 + 113) % 2**64)
# shift_mix(SEED_Y * K2 + 113) * K2
SEED_Z = tl.constexpr(0x134A747F856D0526)


@jit
def rotate(x, bits: tl.constexpr):
    """x rotated right."""
    return (x >> bits) | (x << (64 - bits))


@jit
def shift_mix(x):
    """x with its upper bits mixed into its lower ones."""
    return x ^ (x >> 47)


@jit
def mix_pair(u, v, factor):
    """The hash of two words."""
    a = shift_mix((u ^ v) * factor)
    return shift_mix((v ^ a) * factor) * factor


@jit
def length_factor(length):
    """The factor of strings of at most 64 bytes."""
    return length.to(tl.uint64) * 2 + K2


@jit
def hash_upto3(first, length):
    """The hash of 0 to 3 bytes, the lowest of `first`."""
    middle = (first >> (((length >> 1) & 7) * 8).to(tl.uint64)) & 0xFF
    last = (first >> (((length - 1) & 7) * 8).to(tl.uint64)) & 0xFF
    y = (first & 0xFF) + (middle << 8)
    z = length.to(tl.uint64) + (last << 2)
    return tl.where(length > 0, shift_mix((y * K2) ^ (z * K0)) * K2, K2)


@jit
def hash_upto16(first, last, length):
    """The hash of 0 to 16 bytes.

    first: bytes [0, 8), of which those past the length are arbitrary.   last: the last 8 bytes, for 8 bytes or more.
    """
    factor = length_factor(length)
    a = first + K2
    c = rotate(last, 37) * factor + a
    d = (rotate(a, 25) + last) * factor
    # 4 to 7 bytes: two halves that overlap.
    low = length.to(tl.uint64) + ((first & 0xFFFFFFFF) << 3)
    high = (first >> (((length - 4) & 7) * 8).to(tl.uint64)) & 0xFFFFFFFF
    whole = length >= 8
    mixed = mix_pair(tl.where(whole, c, low), tl.where(whole, d, high), factor)
    return tl.where(length >= 4, mixed, hash_upto3(first, length))


@jit
def mix_ends(a, second, next_last, last, factor):
    """Two words (y, z) from the first and last 16 bytes; z is the hash of 17 to 32 bytes.

    a: bytes [0, 8) times K1 (times K2 for more than 32 bytes).   second: bytes [8, 16).
    """
    c = last * factor
    y = rotate(a + second, 43) + rotate(c, 30) + next_last * K2
    return y, mix_pair(y, a + rotate(second + K2, 18) + c, factor)


@jit
def hash_upto32(first, second, next_last, last, length):
    """The hash of 17 to 32 bytes from their first and last 16."""
    _, z = mix_ends(first * K1, second, next_last, last, length_factor(length))
    return z


@jit
def hash_upto64(text, start, first, last, length, live):
    """The hash of 17 to 64 bytes."""
    factor = length_factor(length)
    longer = length > 32
    a = first * tl.where(longer, K2, K1)
    end = start + length
    y, z = mix_ends(a, word_at(text, start + 8, live), word_at(text, end - 16, live), last, factor)
    longer = longer & live
    e = word_at(text, start + 16, longer) * factor
    f = word_at(text, start + 24, longer)
    g = (y + word_at(text, end - 32, longer)) * factor
    h = (z + word_at(text, end - 24, longer)) * factor
    return tl.where(longer, mix_pair(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, factor), z)


@jit
def mix_half(text, at, a, b, live):
    """Two words mixed with the 32 bytes at a position."""
    last = word_at(text, at + 24, live)
    c = a + word_at(text, at, live)
    d = rotate(b + c + last, 21)
    e = c + word_at(text, at + 8, live) + word_at(text, at + 16, live)
    return e + last, d + rotate(e, 44) + c


@jit
def mix_chunk(text, at, x, y, z, v0, v1, w0, w1, factor, times: tl.constexpr, live):
    """The state (x, y, z, v, w) mixed with the 64 bytes at a position."""
    x = rotate(x + y + v0 + word_at(text, at + 8, live), 37) * factor
    y = rotate(y + v1 + word_at(text, at + 48, live), 42) * factor
    x = x ^ (w1 * times)
    y = y + v0 * times + word_at(text, at + 40, live)
    z = rotate(z + w0, 33) * factor
    v0, v1 = mix_half(text, at, v1 * factor, x + w0, live)
    w0, w1 = mix_half(text, at + 32, z + w1, y + word_at(text, at + 16, live), live)
    return z, y, x, v0, v1, w0, w1


@jit
def hash_chunks(text, start, first, length, live):
    """The hash of more than 64 bytes.

    Facts: all lanes end with the same turn. A lane whose turn has not come mixes nothing that counts: its state is set
    when its first chunk comes. (To keep the state of lanes that have ended would hold two states in registers.)
    """
    chunks = ((length - 1) >> 6).to(tl.int32)
    end = start + ((length - 1) & -64)
    turns = greatest(tl.where(live, chunks, 0))
    x = first
    y = first
    z = first
    v0 = first
    v1 = first
    w0 = first
    w1 = first
    while turns > 0:
        begun = chunks > turns
        x = tl.where(begun, x, first + SEED_X)
        y = tl.where(begun, y, SEED_Y)
        z = tl.where(begun, z, SEED_Z)
        v0 = tl.where(begun, v0, 0)
        v1 = tl.where(begun, v1, 0)
        w0 = tl.where(begun, w0, 0)
        w1 = tl.where(begun, w1, 0)
        active = live & (chunks >= turns)
        x, y, z, v0, v1, w0, w1 = mix_chunk(text, end - turns.to(tl.int64) * 64, x, y, z, v0, v1, w0, w1, K1, 1, active)
        turns -= 1
    # The last 64 bytes, which may overlap the last chunk.
    factor = ((z & 0xFF) << 1) + K1
    w0 += ((length - 1) & 63).to(tl.uint64)
    v0 += w0
    w0 += v0
    x, y, z, v0, v1, w0, w1 = mix_chunk(text, start + length - 64, x, y, z, v0, v1, w0, w1, factor, 9, live)
    low = mix_pair(v0, w0, factor) + shift_mix(y) * K0 + z
    return mix_pair(low, mix_pair(v1, w1, factor) + x, factor)


@jit
def fingerprint64(text, start, length, live):
    """uint64 [N]: the fingerprint of each string, arbitrary where not live."""
    first = word_at(text, start, live & (length > 0))
    last = word_at(text, start + length - 8, live & (length >= 8))
    result = hash_upto16(first, last, length)
    longest = greatest(tl.where(live, tl.minimum(length, 65), 0).to(tl.int32))
    if longest > 16:
        middle = live & (length > 16) & (length <= 64)
        result = tl.where(middle, hash_upto64(text, start, first, last, length, middle), result)
    if longest > 64:
        many = live & (length > 64)
        result = tl.where(many, hash_chunks(text, start, first, length, many), result)
    return result
