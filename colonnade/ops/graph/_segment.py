"""Segment ids as TensorFlow's CPU kernels take them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._values import Array, array
from colonnade.ops.op import Inferred, Value, fresh

INDEX = ("int32", "int64")


def reduced(op: str, data: Facts, ids: Facts, dtypes: Iterable[str]) -> Inferred:
    """A row for each segment. Errors: ShapeError."""
    want_dtype(op, data, dtypes, "data")
    want_dtype(op, ids, INDEX, "segment ids")
    want_rank(op, ids, 1, "segment ids")
    if data.shape is None:
        return one(facts.facts(data.dtype, None))
    if not data.shape:
        raise ShapeError(f"{op}: data has no rows", got="()", want="at least 1 dimension")
    equal = ((data.shape[0], ids.shape[0]),) if ids.shape is not None else ()
    return one(facts.facts(data.dtype, (count_of(ids), *data.shape[1:])), equal)


def rows_and_segments(op: str, args: tuple[Value, ...]) -> tuple[Array, Array, int]:
    """Data, the segment of each of its rows, and how many there are. Errors: GraphError."""
    data, ids = (array(v) for v in args)
    if len(data) != len(ids):
        raise GraphError(f"{op}: rows and segment ids differ", got=f"{len(data)} and {len(ids)}")
    return data, ids, segments(op, ids, None)


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


def count_of(ids: Facts) -> Dim:
    """The last segment id + 1, where the ids are `i // k` or known."""
    if ids.ints is not None and ids.order > facts.Order.NONE:
        return ids.ints[-1] + 1 if ids.ints else 0
    if isinstance(ids.content, facts.Indexed) and ids.shape is not None and len(ids.content.terms) == 1:
        (term,) = ids.content.terms
        if term.coefficient == 1 and term.modulus is None and ids.content.constant == 0:
            count = dims.div_exact(ids.shape[0], term.divisor) if term.divisor != 0 else None
            return fresh(0) if count is None else count
    return fresh(0)
