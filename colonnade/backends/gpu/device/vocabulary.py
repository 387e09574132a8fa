"""Values of keys in a map of open addressing. Source: `colonnade.core.word_map` lays out the slots, four words each.

Legend: N lanes, one key each. slots: pointer to uint64.   otherwise: int64 [N], the result where no key is equal.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit
from colonnade.backends.gpu.device.text import any_lane, text_equals

GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)


@jit
def find_text(text, start, length, hashed, slots, mask, keys, otherwise, live):
    """int64 [N]: the values of strings, given their fingerprints. keys: pointer to the words of all keys."""
    mask = mask.to(tl.uint64)
    at = hashed & mask
    value = otherwise
    active = live
    while any_lane(active):
        slot = slots + at * 4
        size = tl.load(slot + 2, mask=active, other=0).to(tl.int64, bitcast=True)
        active = active & (size >= 0)
        likely = active & (tl.load(slot, mask=active, other=0) == hashed)
        place = tl.load(slot + 1, mask=likely, other=0)
        same = text_equals(text, start, length, keys + place, size, likely)
        value = tl.where(same, tl.load(slot + 3, mask=same, other=0).to(tl.int64, bitcast=True), value)
        active = active & ~same
        at = (at + 1) & mask
    return value


@jit
def find_int(x, slots, mask, shift, otherwise, live):
    """int64 [N]: the values of integers."""
    mask = mask.to(tl.uint64)
    key = x.to(tl.uint64, bitcast=True)
    at = (key * GOLDEN) >> shift.to(tl.uint64)
    value = otherwise
    active = live
    while any_lane(active):
        slot = slots + at * 4
        size = tl.load(slot + 2, mask=active, other=0).to(tl.int64, bitcast=True)
        active = active & (size >= 0)
        same = active & (tl.load(slot, mask=active, other=0) == key)
        value = tl.where(same, tl.load(slot + 3, mask=same, other=0).to(tl.int64, bitcast=True), value)
        active = active & ~same
        at = (at + 1) & mask
    return value
