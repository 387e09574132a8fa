"""One hash of two."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit

CAT_FACTOR = tl.constexpr(0xC6A4A7935BD1E995)


@jit
def join_hash(a, b):
    """int64 [N]: the fingerprint of two int64, in order."""
    mixed = b.to(tl.uint64, bitcast=True) * CAT_FACTOR
    mixed = (mixed ^ (mixed >> 47)) * CAT_FACTOR
    mixed = (a.to(tl.uint64, bitcast=True) ^ CAT_FACTOR ^ mixed) * CAT_FACTOR
    mixed = (mixed ^ (mixed >> 47)) * CAT_FACTOR
    return (mixed ^ (mixed >> 47)).to(tl.int64, bitcast=True)
