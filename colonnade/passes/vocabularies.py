"""Lookups in tables of the model, as the column op `vocabulary`."""

from __future__ import annotations

import numpy as np

from colonnade.core.expr import Apply, Expr
from colonnade.ops.graph.lookup_table_find import LookupTableFind
from colonnade.ops.hash_bytes import HashBytes
from colonnade.ops.hash_decimal import HashDecimal
from colonnade.ops.mod import Mod
from colonnade.ops.vocabulary import Vocabulary
from colonnade.passes.base import Reject


def vocabulary(op: LookupTableFind, default: int | bytes | None) -> Vocabulary | Reject:
    """The column op of a lookup, given the one default."""
    keys, values = op.keys.array, op.values.array
    if values.dtype != np.int64 or (keys.dtype != object and keys.dtype != np.int64):
        return Reject(f"a lookup table from {_kind(keys)} to {_kind(values)} is no vocabulary")
    if not isinstance(default, int):
        return Reject("the default of a lookup table is not one integer")
    return Vocabulary(op.keys, op.values, default)


def with_buckets(known: Expr, marker: int, hashed: Expr, first: int) -> Expr | Reject:
    """`known` where it is not `marker`, `first + hashed` elsewhere, as one vocabulary.

    Legal: `known` looks up the very value whose hash the buckets count; the marker is what unknown keys get, and no
    key's own.
    """
    if not (isinstance(known, Apply) and isinstance(known.op, Vocabulary) and known.op.num_oov == 0):
        return Reject("buckets of unknown keys stand beside something else than a vocabulary")
    op = known.op
    if op.default != marker:
        return Reject(f"buckets replace {marker}, unknown keys get {op.default}")
    if bool((op.values.array == marker).any()):
        return Reject(f"buckets replace {marker}, which is also a known key's value")
    wanted = HashBytes() if op.keys.array.dtype == object else HashDecimal()
    if not (isinstance(hashed, Apply) and isinstance(hashed.op, Mod) and hashed.args == (Apply(wanted, *known.args),)):
        return Reject("buckets of unknown keys are not made by the hash of the keys")
    if first + hashed.op.divisor > 2**63:
        return Reject("buckets of unknown keys do not fit int64")
    return Apply(Vocabulary(op.keys, op.values, first, hashed.op.divisor), *known.args)


def _kind(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    return "strings" if values.dtype == object else str(values.dtype)
