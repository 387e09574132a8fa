"""`vocabularies`: lookups in tables of the model, and the selects around them, as one op."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from colonnade.core.consts import Const
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph.add import Add
from colonnade.ops.graph.cast import Cast
from colonnade.ops.graph.compare import Compare
from colonnade.ops.graph.floor_mod import FloorMod
from colonnade.ops.graph.hash_decimal_bucket import HashDecimalBucket
from colonnade.ops.graph.keyed_decimal_bucket import KeyedDecimalBucket
from colonnade.ops.graph.lookup_table_find import LookupTableFind
from colonnade.ops.graph.ones_like import OnesLike
from colonnade.ops.graph.select import Select
from colonnade.ops.graph.string_to_hash_bucket import StringToHashBucket
from colonnade.ops.graph.string_to_keyed_bucket import StringToKeyedBucket
from colonnade.ops.graph.vocabulary import Vocabulary
from colonnade.passes.base import Editor, Reject, Rewrite, Rewritten
from colonnade.passes.splat import whole

Key = int | bytes


class Vocabularies(Rewrite):
    """A lookup table, a value set apart, buckets for unknown keys: one vocabulary.

    Legal: every operand is of one shape. A value set apart, `select(x == m, c, ids of x)`, is the key m, before others.
    Buckets, `select(ids == marker, first + bucket of x, ids)`: the ids are of that very x, unknown keys get the marker,
    and no key has it as its own value.
    """

    roots = (LookupTableFind, Select)

    def rewrite(self, node: Node, editor: Editor) -> Rewritten | Reject | None:
        """By the kind of op."""
        if isinstance(node.target, LookupTableFind):
            return _table(node, editor)
        return _select(node, editor)


def _table(node: Node, editor: Editor) -> Rewritten | Reject:
    op, (x, default) = op_of(node), args_of(node)
    assert isinstance(op, LookupTableFind)
    keys, values = op.keys.array, op.values.array
    if values.dtype != np.int64 or (keys.dtype != object and keys.dtype != np.int64):
        return Reject(f"a lookup table from {_kind(keys)} to {_kind(values)} is no vocabulary")
    value = whole(default)
    if not isinstance(value, int):
        return Reject("the default of a lookup table is not one integer")
    made = editor.add(Vocabulary(op.keys, op.values, value), x)
    return Rewritten(made, "the keys are strings or int64, the default is one integer")


def _select(node: Node, editor: Editor) -> Rewritten | Reject | None:
    cond, yes, no = args_of(node)
    compare = op_of(cond)
    if not isinstance(compare, Compare) or compare.kind not in ("eq", "ne"):
        return None
    hit, miss = (yes, no) if compare.kind == "eq" else (no, yes)
    x, marker = args_of(cond)
    if whole(marker) is None:
        x, marker = marker, x
    value = whole(marker)
    if value is None:
        return None
    if any(facts_of(n).shape is None or facts_of(n).shape != facts_of(node).shape for n in (miss, x)):
        return None
    if miss is x:
        return _buckets(x, value, hit, editor)
    return _apart(x, value, hit, miss, editor)


def _buckets(ids: Node, marker: Key, hit: Node, editor: Editor) -> Rewritten | Reject | None:
    """`select(ids == marker, first + bucket of x, ids)`."""
    found = _bucket(hit)
    op = op_of(ids)
    if found is None or (facts_of(hit).shape != facts_of(ids).shape):
        return None
    x, first, count, function = found
    if not isinstance(op, Vocabulary) or op.num_oov:
        return Reject("buckets of unknown keys stand beside something else than a vocabulary")
    if op.default != marker:
        return Reject(f"buckets replace {marker!r}, unknown keys get {op.default}")
    if bool((op.values.array == marker).any()):
        return Reject(f"buckets replace {marker!r}, which is also a known key's value")
    if args_of(ids) != (x,):
        return Reject("buckets of unknown keys are not made of the keys that are looked up")
    if not _fits(first, count):
        return Reject("buckets of unknown keys do not fit int64")
    made = editor.add(Vocabulary(op.keys, op.values, first, count, function), x)
    return Rewritten(made, f"unknown keys, and only they, get {marker!r}: they have {count} buckets from {first} on")


def _apart(x: Node, key: Key, hit: Node, miss: Node, editor: Editor) -> Rewritten | Reject | None:
    """`select(x == key, value, ids of x)`."""
    value = whole(hit)
    if not isinstance(value, int) or facts_of(miss).dtype != "int64":
        return None
    op = op_of(miss)
    if isinstance(op, Vocabulary):
        if args_of(miss) != (x,):
            return None
        known: Mapping[Key, int] = dict(zip(op.keys.array.tolist(), op.values.array.tolist(), strict=True))
        default, count, function = op.default, op.num_oov, op.function
    else:
        found = _bucket(miss)
        if found is None or found[0] is not x or not _fits(found[1], found[2]):
            return None
        known = {}
        _, default, count, function = found
    keys, values = _arrays({**known, key: value})
    if keys.dtype != object and facts_of(x).dtype != "int64":
        x = editor.add(Cast("int64"), x)
    made = editor.add(Vocabulary(Const(keys), Const(values), default, count, function), x)
    return Rewritten(made, f"{key!r} is set apart: a key of its own, with the value {value}")


def _bucket(node: Node) -> tuple[Node, int, int, str] | None:
    """What buckets are made of, the first one, how many there are, and the function."""
    first = 0
    if isinstance(node.target, OnesLike):  # one bucket, numbered from 1: what is added to 0 is all that is left
        found = _bucket(args_of(node)[0])
        return None if found is None else (found[0], 1, 1, found[3])
    if isinstance(node.target, Add):
        a, b = args_of(node)
        moved = whole(b) if whole(b) is not None else whole(a)
        node = a if whole(b) is not None else b
        if not isinstance(moved, int):
            return None
        first = moved
    op = op_of(node)
    if isinstance(op, StringToKeyedBucket | KeyedDecimalBucket) and op.num_buckets == 1:
        return args_of(node)[0], first, 1, "farm"  # by whatever hash
    if isinstance(op, StringToHashBucket | HashDecimalBucket) and op.function == "farm":
        return args_of(node)[0], first, op.num_buckets, "farm"
    if isinstance(op, FloorMod) and facts_of(node).dtype == "int64":
        x, divisor = args_of(node)
        count = whole(divisor)
        return (x, first, count, "floor_mod") if isinstance(count, int) and count > 0 else None
    return None


def _fits(first: int, count: int) -> bool:
    return first >= -(2**63) and first + count <= 2**63


def _arrays(known: Mapping[Key, int]) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values as arrays."""
    keys = np.empty(len(known), object if any(isinstance(key, bytes) for key in known) else np.int64)
    keys[:] = list(known)
    return keys, np.array(list(known.values()), np.int64)


def _kind(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    return "strings" if values.dtype == object else str(values.dtype)
