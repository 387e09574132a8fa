"""The hash of a key, as the loops on the CPU compute it.   Legend: N lanes, one key each."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit

HASH_SPREAD = tl.constexpr(0x9E3779B97F4A7C15)
HASH_MIX = tl.constexpr(0xD6E8FEB86659FD93)
LOW_WORD = tl.constexpr(0xFFFFFFFF)


@jit
def unsigned(x):
    """The bits of int64 [N] as uint64."""
    return x.to(tl.uint64, bitcast=True)


@jit
def hash_of(key, id_):
    """uint64 [N]: the hash of int64 ids in a table with that uint64 key."""
    x = unsigned(id_)
    x = ((x ^ (x >> 32)) * HASH_SPREAD) ^ key
    x = (x ^ (x >> 29)) * HASH_MIX
    return x ^ (x >> 32)


@jit
def place_in(h, count):
    """int64 [N]: a number below `count`, a uint64 below 2^32, by the lower half of a hash."""
    return (((h & LOW_WORD) * count) >> 32).to(tl.int64)
