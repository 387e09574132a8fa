"""SipHash-2-4 of strings in memory, and of the decimal text of integers.

Legend: N lanes, one string each; the state is four words.   Source: Aumasson and Bernstein, 2012.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.decimal import decimal_parts, eight_digits, with_sign
from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.text import funnel, greatest, low_bytes, word_at

SIP0 = tl.constexpr(0x736F6D6570736575)
SIP1 = tl.constexpr(0x646F72616E646F6D)
SIP2 = tl.constexpr(0x6C7967656E657261)
SIP3 = tl.constexpr(0x7465646279746573)


@jit
def rotate_left(x, bits: tl.constexpr):
    """x rotated left."""
    return (x << bits) | (x >> (64 - bits))


@jit
def sip_round(a, b, c, d):
    """The state after one round."""
    a = a + b
    c = c + d
    b = rotate_left(b, 13) ^ a
    d = rotate_left(d, 16) ^ c
    a = rotate_left(a, 32) + d
    c = c + b
    b = rotate_left(b, 17) ^ c
    d = rotate_left(d, 21) ^ a
    return a, b, rotate_left(c, 32), d


@jit
def sip_mixed(a, b, c, d, word):
    """The state mixed with a word of the message."""
    a, b, c, d = sip_round(a, b, c, d ^ word)
    a, b, c, d = sip_round(a, b, c, d)
    return a ^ word, b, c, d


@jit
def sip_ended(a, b, c, d):
    """The hash of a state, as int64."""
    a, b, c, d = sip_round(a, b, c ^ 0xFF, d)
    a, b, c, d = sip_round(a, b, c, d)
    a, b, c, d = sip_round(a, b, c, d)
    a, b, c, d = sip_round(a, b, c, d)
    return (a ^ b ^ c ^ d).to(tl.int64, bitcast=True)


@jit
def siphash64(text, start, length, key0, key1, live):
    """int64 [N]: the hash of each string, arbitrary where not live."""
    k0 = (start * 0 + key0).to(tl.uint64, bitcast=True)
    k1 = (start * 0 + key1).to(tl.uint64, bitcast=True)
    a = k0 ^ SIP0
    b = k1 ^ SIP1
    c = k0 ^ SIP2
    d = k1 ^ SIP3
    words = length >> 3
    most = greatest(tl.where(live, words, 0).to(tl.int32))
    word = most * 0
    while word < most:
        active = live & (word < words)
        e, f, g, h = sip_mixed(a, b, c, d, word_at(text, start + word * 8, active))
        a = tl.where(active, e, a)
        b = tl.where(active, f, b)
        c = tl.where(active, g, c)
        d = tl.where(active, h, d)
        word += 1
    rest = length & 7
    last = word_at(text, start + words * 8, live & (rest > 0)) & low_bytes(rest)
    a, b, c, d = sip_mixed(a, b, c, d, last | (length.to(tl.uint64) << 56))
    return sip_ended(a, b, c, d)


@jit
def siphash64_decimal(x, key0, key1):
    """int64 [N]: the hash of the text of int64 x, of at most 20 bytes."""
    high, middle, low, length, sign, negative = decimal_parts(x)
    first = with_sign(eight_digits(high), 0, sign, negative)
    second = with_sign(eight_digits(middle), 1, sign, negative)
    third = with_sign(eight_digits(low), 2, sign, negative)
    # The text is right-aligned in three words: its own words begin at this byte.
    begin = 24 - length
    bits = ((begin & 7) * 8).to(tl.uint64)
    skipped = begin >> 3
    w0 = tl.where(skipped == 0, first, tl.where(skipped == 1, second, third))
    w1 = tl.where(skipped == 0, second, tl.where(skipped == 1, third, 0))
    w2 = tl.where(skipped == 0, third, 0)
    m0 = funnel(w0, w1, bits)
    m1 = funnel(w1, w2, bits)
    m2 = funnel(w2, w2 * 0, bits)
    ending = length.to(tl.uint64) << 56
    k0 = (x * 0 + key0).to(tl.uint64, bitcast=True)
    k1 = (x * 0 + key1).to(tl.uint64, bitcast=True)
    a = k0 ^ SIP0
    b = k1 ^ SIP1
    c = k0 ^ SIP2
    d = k1 ^ SIP3
    a, b, c, d = sip_mixed(a, b, c, d, tl.where(length < 8, m0 | ending, m0))
    e, f, g, h = sip_mixed(a, b, c, d, tl.where(length < 16, m1 | ending, m1))
    a = tl.where(length >= 8, e, a)
    b = tl.where(length >= 8, f, b)
    c = tl.where(length >= 8, g, c)
    d = tl.where(length >= 8, h, d)
    e, f, g, h = sip_mixed(a, b, c, d, m2 | ending)
    a = tl.where(length >= 16, e, a)
    b = tl.where(length >= 16, f, b)
    c = tl.where(length >= 16, g, c)
    d = tl.where(length >= 16, h, d)
    return sip_ended(a, b, c, d)
