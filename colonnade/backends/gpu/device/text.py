"""Strings in memory, eight bytes at a time.

A string is (start, length) in bytes from `text`, a pointer to uint64 words; two aligned words can be read from every
position up to the end of the text. Lanes that are not `live` read nothing. Legend: N lanes, one string each.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit

LOW_BITS = tl.constexpr(0x0101010101010101)
HIGH_BITS = tl.constexpr(0x8080808080808080)
ALL_BITS = tl.constexpr(0xFFFFFFFFFFFFFFFF)


@jit
def greatest(x):
    """The greatest of [N] integers."""
    # `tl.max` is a compiled function, which an interpreted one cannot call; its combination of two can be named.
    return tl.reduce(x, 0, tl.standard._elementwise_max)


@jit
def any_lane(mask):
    """Whether int1 [N] holds anywhere."""
    return greatest(mask.to(tl.int32)) > 0


@jit
def funnel(low, high, bits):
    """The 64 bits that begin at bit 0 <= `bits` < 64 of two words."""
    # A shift by 64 is undefined, so that the upper word is shifted in two steps.
    return (low >> bits) | ((high << 1) << (63 - bits))


@jit
def word_at(text, at, live):
    """uint64 [N]: the eight bytes at any position, as two aligned words."""
    index = at >> 3
    low = tl.load(text + index, mask=live, other=0)
    high = tl.load(text + index + 1, mask=live, other=0)
    return funnel(low, high, ((at & 7) * 8).to(tl.uint64))


@jit
def low_bytes(count):
    """uint64 [N]: ones in the lowest 0 <= `count` < 8 bytes."""
    return (ALL_BITS << (count * 8).to(tl.uint64)) ^ ALL_BITS


@jit
def text_equals(text, start, length, other, other_length, live):
    """int1 [N]: the string is the first `other_length` bytes of `other`, false where not live.

    other: a pointer to words, or one a lane.
    """
    equal = live & (length == other_length)
    words = (length + 7) >> 3
    most = greatest(tl.where(equal, words, 0).to(tl.int32))
    word = most * 0
    while word < most:
        active = equal & (word < words)
        differing = word_at(text, start + word * 8, active) ^ tl.load(other + word + start * 0, mask=active, other=0)
        rest = length - word * 8
        differing = tl.where(rest < 8, differing & low_bytes(rest & 7), differing)
        equal = equal & ((differing == 0) | ~active)
        word += 1
    return equal


@jit
def find_byte(text, start, end, byte, live):
    """int64 [N]: the position of the first byte equal to `byte` in [start, end), else `end`.

    Facts: reads aligned words. A matching byte is zero in `word ^ pattern` and is found by the borrow of a subtraction;
    the borrow can mark a wrong byte only above a right one, so that the lowest mark is right.
    """
    pattern = byte.to(tl.uint64) * LOW_BITS
    found = end
    at = start & -8
    before = low_bytes(start & 7)
    active = live & (start < end)
    while any_lane(active):
        # Bytes before the start are made to differ: they neither match nor borrow.
        differing = (tl.load(text + (at >> 3), mask=active, other=0) ^ pattern) | before
        zeros = (differing - LOW_BITS) & (differing ^ ALL_BITS) & HIGH_BITS
        # Below the lowest mark lie the lowest bits of all bytes up to the matching one.
        marks = ((zeros & (0 - zeros)) - 1) & LOW_BITS
        position = at + ((marks * LOW_BITS) >> 56).to(tl.int64) - 1
        hit = active & (zeros != 0)
        found = tl.where(hit, tl.minimum(position, end), found)
        at += 8
        active = active & ~hit & (at < end)
        before = before & 0
    return found


@jit
def find_bytes(text, start, end, separator, separator_length, live):
    """int64 [N]: the position of the leftmost `separator` that lies wholly in [start, end), else `end`.

    separator: a pointer to words.   Facts: as `bytes.find`, an empty separator is found at `start`.
    """
    first = (tl.load(separator) & 255).to(tl.int32)
    length = start * 0 + separator_length
    stop = tl.maximum(end - separator_length + 1, start)
    found = tl.where(separator_length == 0, start, end)
    at = start
    active = live & (separator_length > 0) & (start < stop)
    while any_lane(active):
        at = find_byte(text, at, stop, first, active)
        active = active & (at < stop)
        hit = text_equals(text, at, length, separator, separator_length, active)
        found = tl.where(hit, at, found)
        at += 1
        active = active & ~hit & (at < stop)
    return found
