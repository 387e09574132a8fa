"""Random features over random fields, and batches of them, for Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from colonnade import ops
from colonnade.core.expr import Apply
from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.errors import ShapeError
from colonnade.frontends.feature import FIELD_DTYPES, Feature, FieldSpec
from colonnade.frontends.feature_set import FeatureSet, Known
from colonnade.ops.op import ExpandOp, FilterOp, PositionOp, RaggedOp
from colonnade.testing.strategies import SEPARATORS, WORDS, column_ops, values_of

Draw = Callable[[st.SearchStrategy[Any]], Any]
ROWS = (0, 1, 2, 3, 7, 65)
KINDS = ("map", "map", "map", "filter", "truncate", "cross", "combine", "mask", "split", "ids")


@dataclass(frozen=True, repr=False)
class FeatureCase:
    """Features, and a batch of their fields."""

    features: FeatureSet
    batch: Mapping[str, Any]
    rows: int

    def __repr__(self) -> str:
        return f"FeatureCase({self.rows} rows, {self.features.fields}, {[f.expr for f in self.features.features]})"


@st.composite
def feature_cases(draw: Draw, max_features: int = 6, rows: tuple[int, ...] = ROWS) -> FeatureCase:
    """Features that read fields and one another; some fields share offsets."""
    num_rows = draw(st.sampled_from(rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    specs = [_spec(draw, f"f{k}") for k in range(draw(st.integers(1, 4)))]
    lengths = {level: [_lengths(draw, rng, num_rows) for _ in range(2)] for level in (1, 2)}
    batch = {s.name: _value(draw, rng, s, num_rows, lengths) for s in specs}
    made = [Feature(s.name) for s in specs]
    for k in range(draw(st.integers(1, max_features))):
        feature = draw(st.sampled_from(made))
        for _ in range(draw(st.integers(0, 4))):
            feature = _more(draw, feature, made, specs)
        if _known(feature, specs) is not None:
            made.append(Feature(f"x{k}", feature))
    features = [_given(draw, f, specs) for f in made]
    return FeatureCase(FeatureSet(features, specs), batch, num_rows)


def _spec(draw: Draw, name: str) -> FieldSpec:
    ragged = draw(st.sampled_from((0, 0, 1, 1, 2)))
    width = draw(st.sampled_from((1, 1, 3))) if ragged == 0 else 1
    return FieldSpec(name, draw(st.sampled_from(FIELD_DTYPES)), ragged, width, draw(st.booleans()))


def _lengths(draw: Draw, rng: np.random.Generator, num_rows: int) -> Any:
    return draw(st.sampled_from((lambda: rng.integers(0, 2, num_rows), lambda: rng.integers(0, 6, num_rows))))()


def _value(draw: Draw, rng: np.random.Generator, spec: FieldSpec, num_rows: int, lengths: Any) -> Any:
    offsets: list[Any] = []
    count = num_rows * spec.width
    if spec.ragged:
        offsets.append(np.cumsum([0, *lengths[spec.ragged][draw(st.integers(0, 1))]]))
        count = int(offsets[-1][-1])
    if spec.ragged == 2:
        offsets.append(np.cumsum([0, *rng.integers(0, 4, count)]))
        count = int(offsets[-1][-1])
    if spec.dtype == "bool":
        values: Any = rng.random(count) < 0.5
    else:
        values = values_of(rng, spec.dtype, (count,))
    if spec.ragged == 0 and not spec.weighted:
        return values.reshape(num_rows, spec.width) if spec.width > 1 or draw(st.booleans()) else values
    weights = rng.integers(-2, 3, count).astype(np.float32) if spec.weighted else None
    if spec.ragged == 0:
        offsets = [np.arange(num_rows + 1) * spec.width]
    flat = Strings.from_objects(values) if spec.dtype == "string" else torch.from_numpy(values)
    return Ragged.of(flat, *offsets, weights=weights)


def _known(feature: Feature, specs: list[FieldSpec]) -> Known | None:
    try:
        return FeatureSet([], specs).known(feature.expr)
    except ShapeError:
        return None


def _more(draw: Draw, feature: Feature, others: list[Feature], specs: list[FieldSpec]) -> Feature:
    """The feature after one more op that takes it, if a drawn one does."""
    known = _known(feature, specs)
    if known is None:
        return feature
    made = _applied(draw, feature, known, others, specs)
    found = _known(made, specs)
    return feature if found is None or found.rows.width not in (None, *range(40)) else made


def _applied(draw: Draw, feature: Feature, known: Known, others: list[Feature], specs: list[FieldSpec]) -> Feature:
    kind = draw(st.sampled_from(KINDS))
    other = draw(st.sampled_from(others))
    if kind == "cross" and _crosses(feature) + _crosses(other) < 2:
        return Feature.cross("x", feature, other)
    if kind == "combine":
        return Feature.combine("x", feature, other)
    if kind == "truncate":
        fill = b"pad" if known.elements.dtype == "string" else 0
        pad = draw(st.sampled_from((None, fill)))
        return feature.truncate(draw(st.integers(0, 4)), draw(st.sampled_from(("first", "last"))), pad)
    if kind == "split":
        return feature.split(draw(st.sampled_from(SEPARATORS)))
    if kind == "ids":
        return feature.hash_bytes() if known.elements.dtype == "string" else feature.bucketize([-1, 0, 1.5])
    if kind in ("filter", "mask"):
        keys = WORDS[:4] if known.elements.dtype == "string" else (0, 1, -1, 7)
        return feature.mask(keys) if kind == "mask" else _filtered(draw, feature, keys)
    others_than_maps = FilterOp | ExpandOp | PositionOp | RaggedOp
    plain = sorted(n for n, op in ops.load().items() if not issubclass(op, others_than_maps))
    op = draw(column_ops(draw(st.sampled_from(plain))))
    found = _known(other, specs)
    lies_alike = found is not None and found.rows == known.rows and known.rows.width is not None
    return feature.map(op, *[other if lies_alike else feature] * (op.arity - 1))


def _filtered(draw: Draw, feature: Feature, keys: Any) -> Feature:
    if draw(st.booleans()):
        return draw(st.sampled_from((feature.drop, feature.keep)))(keys)  # type: ignore[no-any-return]
    names = sorted(n for n, op in ops.load().items() if issubclass(op, FilterOp))
    return feature.filter(draw(column_ops(draw(st.sampled_from(names)))))


def _crosses(feature: Feature) -> int:
    stack, count = [feature.expr], 0
    while stack:
        expr = stack.pop()
        if isinstance(expr, Apply):
            count += expr.op.name == "cross"
            stack += expr.args
    return count


def _given(draw: Draw, feature: Feature, specs: list[FieldSpec]) -> Feature:
    """Sometimes embedded, or dense."""
    known = _known(feature, specs)
    assert known is not None
    choice = draw(st.integers(0, 2))
    if choice == 0 and known.elements.dtype in ("int32", "int64"):
        return feature.embed(dim=draw(st.sampled_from((1, 4))), pooling=draw(st.sampled_from(("sum", "none"))))
    if choice == 1 and known.elements.dtype != "string" and known.rows.levels == 1 and known.rows.width is not None:
        return feature.dense()
    return feature
