"""Offsets and weights of many features, each of its own, as those of one list of ids.

Legend: F features, int64 [F, 4]: the address of offsets from 0; of those that count lists (0: the first are of batch
rows); of weights; which of `begins` is where the feature's ids begin. B batch rows; N ids of all features.
"""

from __future__ import annotations

import triton.language as tl

from colonnade.backends.gpu.device.jit import kernel
from colonnade.train.gpu.kernels.places import floats, longs


@kernel
def join_offsets(features, begins, offsets, num, BLOCK: tl.constexpr):
    """Kernel: where the ids of each batch row begin; a program a part of a feature. offsets: int64 [F, num]."""
    feature = tl.program_id(1).to(tl.int64)
    words = features + 4 * feature
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = lane < num
    at = lane.to(tl.int64)
    outer = tl.load(words + 1)
    if outer != 0:
        at = tl.load(longs(outer + 8 * at), mask=live, other=0)
    ends = tl.load(longs(tl.load(words) + 8 * at), mask=live, other=0)
    tl.store(offsets + feature * num + lane, ends + tl.load(begins + tl.load(words + 3)), mask=live)


@kernel
def join_weights(features, begins, weights, BLOCK: tl.constexpr):
    """Kernel: the weights of features that have some; a program a part of a feature. weights: float32 [N]."""
    words = features + 4 * tl.program_id(1).to(tl.int64)
    own = tl.load(words + 3)
    first, end = tl.load(begins + own), tl.load(begins + own + 1)
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = lane < end - first
    tl.store(weights + first + lane, tl.load(floats(tl.load(words + 2) + 4 * lane), mask=live, other=0), mask=live)
