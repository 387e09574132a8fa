"""Fingerprint64 of the decimal text of integers, which is made in registers.

The text is right-aligned in three words of eight digits; a word's first digit is its lowest byte. Legend: N lanes.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.fingerprint import hash_upto16, hash_upto32
from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.text import funnel, greatest


@jit
def eight_digits(value):
    """uint64 [N]: the text of a uint32 below 10^8, with leading zeros.

    Facts: halves, quarters and eighths of the word are divided at once; `a * 10486 >> 20` is a // 100 for a < 10000 and
    `a * 103 >> 10` is a // 10 for a < 100.
    """
    high = value // 10000
    pairs = high.to(tl.uint64) | ((value - high * 10000).to(tl.uint64) << 32)
    high = ((pairs * 10486) >> 20) & 0x0000007F0000007F
    pairs = high | ((pairs - high * 100) << 16)
    high = ((pairs * 103) >> 10) & 0x000F000F000F000F
    return (high | ((pairs - high * 10) << 8)) | 0x3030303030303030


@jit
def digits_upto8(value):
    """int32 [N]: the number of digits of a uint32 below 10^8, 1 for 0."""
    count = 1 + (value >= 10).to(tl.int32) + (value >= 100).to(tl.int32) + (value >= 1000).to(tl.int32)
    count += (value >= 10000).to(tl.int32) + (value >= 100000).to(tl.int32)
    return count + (value >= 1000000).to(tl.int32) + (value >= 10000000).to(tl.int32)


@jit
def with_sign(word, index: tl.constexpr, place, negative):
    """A word of the text, with "-" where the text's byte `place` is in it (there stands "0")."""
    minus = (place * 0 + (0x30 ^ 0x2D)).to(tl.uint64) << ((place & 7) * 8).to(tl.uint64)
    return tl.where(negative & ((place >> 3) == index), word ^ minus, word)


@jit
def decimal_parts(x):
    """Digits of int64 x, eight and eight and eight; the length of its text, the place of a sign, whether it has one."""
    negative = x < 0
    magnitude = x.to(tl.uint64, bitcast=True)
    magnitude = tl.where(negative, 0 - magnitude, magnitude)
    upper = magnitude // 100000000
    low = (magnitude - upper * 100000000).to(tl.uint32)
    high = (upper // 100000000).to(tl.uint32)
    middle = (upper - high.to(tl.uint64) * 100000000).to(tl.uint32)
    # The first digit is in the first word that is not zero.
    above = tl.where(high > 0, 16, tl.where(middle > 0, 8, 0))
    leading = tl.where(high > 0, high, tl.where(middle > 0, middle, low))
    digits = above + digits_upto8(leading)
    sign = 23 - digits
    return high, middle, low, digits + negative.to(tl.int32), sign, negative


@jit
def fingerprint64_decimal(x, live):
    """uint64 [N]: the fingerprint of the text of int64 x, arbitrary where not live."""
    high, middle, low, length, sign, negative = decimal_parts(x)
    second = with_sign(eight_digits(middle), 1, sign, negative)
    third = with_sign(eight_digits(low), 2, sign, negative)
    begin = (((24 - length) & 7) * 8).to(tl.uint64)
    one_word = length <= 8
    first = funnel(tl.where(one_word, third, second), tl.where(one_word, 0, third), begin)
    result = hash_upto16(first, third, length)
    if greatest(tl.where(live, length, 0)) > 16:
        words = with_sign(eight_digits(high), 0, sign, negative)
        longer = hash_upto32(funnel(words, second, begin), funnel(second, third, begin), second, third, length)
        result = tl.where(length > 16, longer, result)
    return result
