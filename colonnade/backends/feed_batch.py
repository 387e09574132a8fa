"""Record batches of one schema, read by one loop: which of their columns each run of fields is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from colonnade.backends.feed_pack import Packer, Run
from colonnade.backends.feed_values import arrow_type
from colonnade.core.arrow_columns import ColumnsOf

_OFFSET_BYTES = {pa.binary(): 4, pa.string(): 4, pa.large_binary(): 8, pa.large_string(): 8}


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """How to read batches of a schema. columns: by packer and run; None where they are read another way.

    places: where each input stands in a batch.
    """

    schema: pa.Schema
    columns: tuple[tuple[ColumnsOf, ...], ...] | None
    places: dict[str, int]


def plan_of(schema: pa.Schema, packers: Sequence[Packer], inputs: frozenset[str]) -> BatchPlan:
    """The plan for a schema: usable where its columns are the inputs, and of the declared types exactly."""
    places = {name: k for k, name in enumerate(schema.names)}
    elsewhere = any(p.ragged.offsets or p.is_made for p in packers)
    if places.keys() != inputs or len(places) != len(schema.names) or elsewhere:
        return BatchPlan(schema, None, places)
    found = [[_columns_of(run, schema, places) for run in packer.runs] for packer in packers]
    usable = tuple(tuple(c for c in columns if c is not None) for columns in found)
    is_whole = all(len(some) == len(columns) for some, columns in zip(usable, found, strict=True))
    return BatchPlan(schema, usable if is_whole else None, places)


def _columns_of(run: Run, schema: pa.Schema, places: dict[str, int]) -> ColumnsOf | None:
    """The columns of a run's fields; None where their types differ or are read another way."""
    indices = [places[name] for name in run.names]
    types = schema.types
    kinds = {types[k] for k in indices}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    lists: list[int] = []
    while pa.types.is_fixed_size_list(kind):
        lists.append(kind.list_size)
        kind = kind.value_type
    if math.prod(lists) != run.width:
        return None
    if run.dtype == "string":
        size = _OFFSET_BYTES.get(kind)
    else:  # the bits of booleans lie side by side
        size = None if kind != arrow_type(run.dtype) or run.dtype == "bool" else np.dtype(run.dtype).itemsize
    return None if size is None else ColumnsOf(np.array(indices, np.int64), np.array(lists, np.int64), size)
