"""A kernel that copies a block between the host and the device as an ordinary part of a graph."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def copy_words(source, target, words, cleared, num_cleared, BLOCK: tl.constexpr):
    """Kernel: `target = source`, 8 bytes at a time, and `cleared = 0`."""
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < words
    tl.store(target + at, tl.load(source + at, mask=live, other=0), mask=live)
    if block == 0:
        zero = tl.arange(0, BLOCK)
        tl.store(cleared + zero, tl.full((BLOCK,), 0, tl.int64), mask=zero < num_cleared)
