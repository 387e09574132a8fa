"""Segment ids as TensorFlow's CPU kernels take them."""

from __future__ import annotations

import numpy as np

from colonnade.errors import GraphError
from colonnade.ops.graph._values import Array


def segments(op: str, segment_ids: Array, count: int | None) -> int:
    """The number of segments. Errors: GraphError where the ids fall, are negative or reach beyond `count`."""
    ids = segment_ids.astype(np.int64)
    if (np.diff(ids) < 0).any():
        raise GraphError(f"{op}: segment ids that fall", got=str(ids[:20].tolist()), want="nondecreasing")
    if (ids < 0).any():
        raise GraphError(f"{op}: negative segment ids", got=str(ids[:20].tolist()), want=">= 0")
    if count is None:
        return int(ids[-1]) + 1 if len(ids) else 0
    if (ids >= count).any():
        raise GraphError(f"{op}: segment ids out of range", got=str(ids.max()), want=f"less than {count}")
    return count
