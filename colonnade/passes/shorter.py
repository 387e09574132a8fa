"""The same column in fewer steps: filters on what a vocabulary gives become filters on its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.ir.column import Column
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.op import MapOp
from colonnade.ops.vocabulary import Vocabulary

MOST_FILTERS = 4
"""Keys of one number up to which comparing with each of them is shorter than looking them up."""


def shorter(column: Column, dtypes: Mapping[str, str]) -> Column:
    """A column that keeps the same elements and gives them the same ids.

    Legal: a vocabulary that gives a number to some keys and to no unknown value gives another number to all but those
    keys. One that has no keys and no buckets gives every value the same number.
    """
    filters = tuple(dict.fromkeys(made for predicate in column.filters for made in _of_keys(predicate)))
    return replace(column, ids=_constant(column.ids, dtypes), filters=filters)


def _of_keys(predicate: Expr) -> Iterator[Expr]:
    """`vocabulary(x) != number` as `x != key` for each key of that number, where these are few."""
    keys = _keys(predicate)
    if keys is None:
        yield predicate
        return
    assert isinstance(predicate, Apply)
    (looked_up,) = predicate.args
    assert isinstance(looked_up, Apply)
    for key in keys:
        yield Apply(NotEqual(key), *looked_up.args)


def _keys(predicate: Expr) -> list[bytes | int] | None:
    """The values of x that the predicate drops; None: it is no such predicate, or they are too many."""
    if not isinstance(predicate, Apply) or not isinstance(predicate.op, NotEqual):
        return None
    (looked_up,), number = predicate.args, predicate.op.value
    if not isinstance(looked_up, Apply) or not isinstance(looked_up.op, Vocabulary):
        return None
    op = looked_up.op
    if not isinstance(number, int) or op.default <= number <= op.default + max(op.num_oov - 1, 0):
        return None
    keys: list[bytes | int] = op.keys.array[op.values.array == number].tolist()
    return keys if len(keys) <= MOST_FILTERS else None


def _constant(ids: Expr, dtypes: Mapping[str, str]) -> Expr:
    """`vocabulary` without keys and buckets, of the field itself and not of what is made of it."""
    if not isinstance(ids, Apply) or not isinstance(op := ids.op, Vocabulary) or op.num_oov or len(op.keys.array):
        return ids
    (source,) = ids.args
    while isinstance(source, Apply) and isinstance(source.op, MapOp) and len(source.args) == 1:
        source = source.args[0]
    empty = {"string": np.zeros(0, object), "int64": np.zeros(0, np.int64)}
    dtype = dtypes.get(source.name, "") if isinstance(source, Field) else ""
    return Apply(replace(op, keys=Const(empty[dtype]), function="farm"), source) if dtype in empty else ids
