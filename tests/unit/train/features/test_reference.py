"""The transform as it is defined, against lists of Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import given

from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.murmur import murmur64
from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.frontends.feature_set import FeatureSet
from colonnade.ops.op import ExpandOp
from colonnade.testing.strategies_feature import FeatureCase, feature_cases
from colonnade.train.features.batch import read
from colonnade.train.features.reference import ReferenceTransform

Bag = list[tuple[Any, float | None]]
"""Elements, each an array of one, and their weights."""
Rows = list[list[Bag]]
"""Of each row its lists; one list where there are no lists."""


def rows_of(x: Ragged) -> Rows:
    values = x.values.to_objects() if isinstance(x.values, Strings) else x.values
    weights = [None] * len(values) if x.weights is None else x.weights.tolist()
    elements = [(values[i : i + 1], w) for i, w in enumerate(weights)]
    bags = [elements[a:b] for a, b in itertools.pairwise(x.offsets[-1].tolist())]
    if x.levels == 1:
        return [[bag] for bag in bags]
    return [bags[a:b] for a, b in itertools.pairwise(x.offsets[0].tolist())]


class ByHand:
    """Expressions, element by element."""

    def __init__(self, features: FeatureSet, fields: dict[str, Ragged]) -> None:
        self.features = features
        self.fields = fields

    def of(self, expr: Expr) -> Rows:
        if isinstance(expr, Field):
            return rows_of(self.fields[expr.name])
        assert isinstance(expr, Apply)
        args = [self.of(a) for a in expr.args]
        if expr.op.name == "truncate":
            return self.truncate(expr, args[0])
        on_bags: Callable[..., Bag] = getattr(self, expr.op.name, None) or self.elements(expr.op)
        return [[on_bags(*bags) for bags in zip(*each, strict=True)] for each in zip(*args, strict=True)]

    def elements(self, op: Any) -> Callable[..., Bag]:
        def bag(*bags: Bag) -> Bag:
            if isinstance(op, ExpandOp):
                parts = [(op.expand(v)[0], w) for v, w in bags[0]]
                return [(tokens[i : i + 1], w) for tokens, w in parts for i in range(len(tokens))]
            return [(op.reference(*(v for v, _ in each)), each[0][1]) for each in zip(*bags, strict=True)]

        return bag

    def keep(self, x: Bag, mask: Bag) -> Bag:
        return [e for e, (m, _) in zip(x, mask, strict=True) if bool(m)]

    def weigh(self, x: Bag, factor: Bag) -> Bag:
        return [(v, (1.0 if w is None else w) * float(f)) for (v, w), (f, _) in zip(x, factor, strict=True)]

    def cross(self, *bags: Bag) -> Bag:
        row: Bag = []
        for choice in itertools.product(*bags):
            h = murmur64(b"".join((int(v) % 2**64).to_bytes(8, "little") for v, _ in choice))
            weights = [np.float32(w) for _, w in choice if w is not None]
            product = None if not weights else float(np.prod(weights, dtype=np.float32))
            row.append((torch.tensor([h - 2**64 if h >> 63 else h]), product))
        return row

    def combine(self, *bags: Bag) -> Bag:
        return [e for bag in bags for e in bag]

    def truncate(self, expr: Apply, x: Rows) -> Rows:
        op, known = expr.op, self.features.known(expr.args[0])
        weight = 0.0 if known.weighted else None
        if known.rows.levels == 2:
            return [self.cut(op, bags, lambda: []) for bags in x]
        return [[self.cut(op, bag, lambda: (self.filled(op, known.elements.dtype), weight))] for (bag,) in x]

    def cut(self, op: Any, items: list[Any], fill: Callable[[], Any]) -> list[Any]:
        kept = items[: op.length] if op.side == "first" else items[max(len(items) - op.length, 0) :]
        return kept + [fill() for _ in range(op.length - len(kept) if op.padded else 0)]

    def filled(self, op: Any, dtype: str) -> Any:
        if dtype == "string":
            value = np.empty(1, object)
            value[0] = op.fill
            return value
        return torch.tensor([op.fill], dtype=getattr(torch, dtype))


def assert_rows(got: Ragged, want: Rows, num_rows: int) -> None:
    """The same elements, bit for bit, and weights."""
    assert got.rows == num_rows == len(want)
    found = rows_of(got)
    assert [[len(bag) for bag in bags] for bags in found] == [[len(bag) for bag in bags] for bags in want]
    for (v, w), (want_v, want_w) in zip(flat(found), flat(want), strict=True):
        assert np.asarray(v).tobytes() == np.asarray(want_v).tobytes() or v.tolist() == want_v.tolist()
        assert w == want_w if w is None else w == (1.0 if want_w is None else want_w)


def flat(rows: Rows) -> Bag:
    return [e for bags in rows for bag in bags for e in bag]


def copied(x: Any) -> Any:
    if isinstance(x, Ragged):
        values = x.values.to_objects() if isinstance(x.values, Strings) else x.values.clone()
        return values, [o.clone() for o in x.offsets], None if x.weights is None else x.weights.clone()
    return np.array(x)


def assert_unchanged(before: Any, now: Any) -> None:
    if not isinstance(now, Ragged):
        np.testing.assert_array_equal(before, now)
        return
    values, offsets, weights = before
    after, after_offsets, after_weights = copied(now)
    np.testing.assert_array_equal(np.asarray(values), np.asarray(after))
    assert all(torch.equal(a, b) for a, b in zip(offsets, after_offsets, strict=True))
    assert weights is None or torch.equal(weights, after_weights)


@given(case=feature_cases())
def test_every_feature_is_what_its_ops_say(case: FeatureCase) -> None:
    before = {name: copied(x) for name, x in case.batch.items()}
    got = ReferenceTransform(case.features)(case.batch)
    fields, rows = read(case.batch, case.features.read)
    by_hand = ByHand(case.features, fields)
    assert got.rows == rows
    for feature in case.features.features:
        want = by_hand.of(feature.expr)
        if feature.is_dense:
            numbers = [v.to(torch.float32) for v, _ in flat(want)]
            made = torch.cat([torch.empty(0), *numbers]).reshape(got.dense[feature.name].shape)
            np.testing.assert_array_equal(made.numpy(), got.dense[feature.name].numpy())
        else:
            assert_rows(got.sparse[feature.name], want, rows)
    for name, x in case.batch.items():
        assert_unchanged(before[name], x)
