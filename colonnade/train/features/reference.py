"""The transform as it is defined: one feature at a time, every op by its `reference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.ragged import Ragged, offsets_of, same_rows
from colonnade.core.strings import Strings
from colonnade.errors import ShapeError
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ops.op import ExpandOp, RaggedOp, Value
from colonnade.train.features.batch import read
from colonnade.train.features.transformed import Transformed, joined


class ReferenceTransform:
    """Obviously right, not fast."""

    def __init__(self, features: FeatureSet) -> None:
        self.features = features

    def __call__(self, batch: Mapping[str, Any]) -> Transformed:
        """All features of a batch. Errors: FeedError that lists every field that does not fit."""
        fields, num_rows = read(batch, self.features.read)
        values = {name: _objects(x) for name, x in fields.items()}
        sparse: dict[str, Ragged] = {}
        dense: dict[str, torch.Tensor] = {}
        for feature in self.features.features:
            found = evaluate(feature.expr, values, {}, feature.name)
            if feature.is_dense:
                width = self.features.known(feature.expr).rows.width
                dense[feature.name] = found.values.to(torch.float32).reshape(num_rows, width)
            else:
                sparse[feature.name] = found
        return joined(num_rows, sparse, dense)


def _objects(x: Ragged) -> Ragged:
    if isinstance(x.values, Strings):
        return Ragged(x.values.to_objects(), x.offsets, x.weights)
    return x


def evaluate(expr: Expr, fields: Mapping[str, Ragged], done: dict[Expr, Ragged], where: str) -> Ragged:
    """The value of an expression for given fields. done: what was computed before."""
    found = done.get(expr)
    if found is None:
        found = done[expr] = _compute(expr, fields, done, where)
    return found


def _compute(expr: Expr, fields: Mapping[str, Ragged], done: dict[Expr, Ragged], where: str) -> Ragged:
    if isinstance(expr, Field):
        return fields[expr.name]
    assert isinstance(expr, Apply)
    args = [evaluate(a, fields, done, where) for a in expr.args]
    if isinstance(expr.op, RaggedOp):
        if expr.op.name in ("keep", "weigh"):
            _check_same(expr, args, where)
        result: Ragged = expr.op.apply(*args)
        return result
    _check_same(expr, args, where)
    first = args[0]
    if isinstance(expr.op, ExpandOp):
        tokens, counts = expr.op.expand(first.values)
        ends = offsets_of(counts)
        weights = None if first.weights is None else first.weights.repeat_interleave(counts)
        return Ragged(tokens, (*first.offsets[:-1], ends[first.offsets[-1]]), weights)
    made: Value = expr.op.reference(*(a.values for a in args))
    return Ragged(made, first.offsets, first.weights)


def _check_same(expr: Apply, args: list[Ragged], where: str) -> None:
    if not same_rows(args):
        raise ShapeError(
            f"{expr.op.name} takes operands of one number of elements in every row",
            where=f"feature {where!r}",
            got="rows of different lengths",
        )
