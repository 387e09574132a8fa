"""Offsets and weights of many features, each of its own, as those of one list of ids.

Legend: `features` is the address of F features of JOIN_BYTES; B batch rows; N ids of all features.
"""

from __future__ import annotations

import numpy as np

from colonnade.backends.memory import load_f32, load_i64, store_f32, store_i64
from colonnade.train.loops.entry import entry

# A feature.
INNER = 0  # address of its offsets, from 0
OUTER = 8  # address of B + 1 offsets that count lists, 0: the inner ones are of batch rows
START = 16  # where its ids begin
WEIGHTS = 24  # address of float32, 0: none
COUNT = 32  # of its ids
JOIN_BYTES = 40


@entry
def join(features: int, count: int, batch: int, offsets: int, weights: int) -> int:
    """Write where the ids of each batch row begin. offsets: int64 [F, B + 1].   weights: float32 [N], 0: not wanted."""
    for f in range(count):
        feature, out = features + JOIN_BYTES * f, offsets + 8 * (batch + 1) * f
        inner, outer, start = load_i64(feature + INNER), load_i64(feature + OUTER), load_i64(feature + START)
        if outer == 0:
            for b in range(batch + 1):
                store_i64(out + 8 * b, load_i64(inner + 8 * b) + start)
        else:
            for b in range(batch + 1):
                store_i64(out + 8 * b, load_i64(inner + 8 * load_i64(outer + 8 * b)) + start)
        if weights == 0:
            continue
        own, to = load_i64(feature + WEIGHTS), weights + 4 * start
        for i in range(load_i64(feature + COUNT)):
            store_f32(to + 4 * i, load_f32(own + 4 * i) if own != 0 else np.float32(1))
    return 0
