"""Pooling of rows in float32, in the order of TensorFlow's CPU kernels.

Legend: N elements, D width of a row.
"""

from __future__ import annotations

import numpy as np

from colonnade.errors import GraphError
from colonnade.ops.graph._values import Array

POOLINGS = ("sum", "mean", "sqrtn")
GROUP = 8


def pool(rows_ND: Array, pooling: str) -> Array:
    """The pooled row of at least one row.

    Facts: below 10 rows, added left to right and multiplied by 1/n; from 10 on, the first n % 8 rows (0 -> 8, 1 -> 9)
    left to right, then the sums of the next 8 rows each, and divided by n (sqrtn: by sqrt n).
    """
    n = len(rows_ND)
    divisor = {"sum": None, "mean": n, "sqrtn": np.sqrt(rows_ND.dtype.type(n))}[pooling]
    if n < 10:
        total = _left_to_right(rows_ND)
        if divisor is None or n == 1:
            return total
        factor = rows_ND.dtype.type(1) / rows_ND.dtype.type(divisor)
        scaled: Array = total * factor
        return scaled
    head = n % GROUP
    head = head + GROUP if head < 2 else head
    total = _left_to_right(rows_ND[:head])
    for at in range(head, n, GROUP):
        total = total + _left_to_right(rows_ND[at : at + GROUP])
    return total if divisor is None else np.divide(total, rows_ND.dtype.type(divisor))


def _left_to_right(rows_ND: Array) -> Array:
    total: Array = rows_ND[0].copy()
    for row in rows_ND[1:]:
        total = total + row
    return total


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


def bags(segment_ids: Array) -> list[tuple[int, slice]]:
    """Every segment that has elements, and where they lie."""
    found, starts = np.unique(segment_ids, return_index=True)
    ends = np.append(starts, len(segment_ids))[1:]
    return [(int(k), slice(int(a), int(b))) for k, a, b in zip(found, starts, ends, strict=True)]
