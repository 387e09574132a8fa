"""A kernel of the dense rest: the parts of a product added up."""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import jit


@jit
def add_up(
    parts, bias, out, size, outputs, S: tl.constexpr, HAS_BIAS: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr
):
    """Kernel: `out = sum over S of parts [S, M, N], + bias [N]`, then relu, in the order of the parts."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < size
    total = tl.load(parts + at, mask=live, other=0.0)
    for s in tl.static_range(1, S):
        total += tl.load(parts + s * size + at, mask=live, other=0.0)
    if HAS_BIAS:
        total += tl.load(bias + at % outputs, mask=live, other=0.0)
    if RELU:
        total = tl.where(total < 0.0, 0.0, total)  # NaN stays
    tl.store(out + at, total, mask=live)
