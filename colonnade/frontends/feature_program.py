"""A program made of features: what training computes, served by the backends.

Legend: B batch rows, N elements of a ragged field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from colonnade.core import dims
from colonnade.core.dims import Dim
from colonnade.core.expr import Apply, Expr, Field, fields_of
from colonnade.core.ragged import Ragged
from colonnade.core.strings import Strings
from colonnade.errors import FeatureError, ShapeError, listed
from colonnade.frontends.feature import Feature, FieldSpec
from colonnade.frontends.feature_set import READ_AS, FeatureSet
from colonnade.ir.column import Column, Slot
from colonnade.ir.program import Buffer, Input, Output, Program, Ref
from colonnade.ir.table import Table
from colonnade.ops.cast import Cast
from colonnade.ops.clip import Clip
from colonnade.ops.keep import Keep
from colonnade.ops.op import ExpandOp, RaggedOp
from colonnade.ops.weigh import Weigh

BATCH = dims.symbol("B")


def offsets_key(field: str) -> str:
    """The key of a request that holds the offsets of a ragged field."""
    return f"{field}:offsets"


def buffer_name(feature: str) -> str:
    """The buffer of a feature's vectors: fields may have the feature's own name."""
    return f"{feature}:vectors"


def weights_key(field: str) -> str:
    """The key of a request that holds the weights of a field's elements."""
    return f"{field}:weights"


def program_of(features: FeatureSet, rows: Mapping[str, int]) -> Program:
    """One output a feature that is dense or embedded; rows: of each table.

    Shapes: `[B, embedding_dim]`; of a sequence or tile of a dense field `[B, width * embedding_dim]`.
    Facts: bool fields are given as int64. An id outside its table is an error, or zeros, as the program is compiled.
    Errors: FeatureError that lists every feature that no column can be, with the reason.
    """
    made: list[tuple[Column, int]] = []
    wrong: list[str] = []
    for feature in features.features:
        try:
            column = _column(feature, features, rows)
        except ShapeError as fault:
            wrong.append(f"feature {feature.name!r}: {fault.message}" + (f", got {fault.got}" if fault.got else ""))
            continue
        if column is not None:
            made.append(column)
    wrong += [f"table {t.name!r}: nothing says its rows" for t in features.tables if t.name not in rows]
    if wrong:
        raise FeatureError(f"{len(wrong)} features cannot be served", got=listed(wrong))
    buffers = tuple(Buffer(buffer_name(c.name), BATCH, width) for c, width in made)
    outputs = tuple(Output(c.name, Ref(buffer_name(c.name)), "float32", (BATCH, width)) for c, width in made)
    tables = tuple(Table(t.name, rows[t.name], t.embedding_dim, t.dtype) for t in features.tables)
    inputs = tuple(i for spec in served(features) for i in _inputs(spec))
    return Program(inputs, tables, tuple(c for c, _ in made), buffers, (), outputs)


def served(features: FeatureSet) -> tuple[FieldSpec, ...]:
    """The fields that dense and embedded features read."""
    used = {n for f in features.features if f.is_dense or f.embedding is not None for n in fields_of(f.expr)}
    return tuple(spec for spec in features.read if spec.name in used)


def request_of(fields: Mapping[str, Any], features: FeatureSet) -> dict[str, Any]:
    """A batch of fields as a request of the program."""
    request: dict[str, Any] = {}
    for spec in served(features):
        value = fields[spec.name]
        if isinstance(value, Ragged):
            request |= _keys(value, spec)
        else:
            values = _array(value, spec)
            request[spec.name] = values.reshape(-1, spec.width)
    return request


def _keys(value: Ragged, spec: FieldSpec) -> dict[str, Any]:
    shape = (-1, spec.width) if spec.ragged == 0 else (-1,)
    found = {spec.name: _array(value.values, spec).reshape(shape)}
    if spec.ragged:
        found[offsets_key(spec.name)] = value.offsets[-1].numpy()
    if value.weights is not None:
        found[weights_key(spec.name)] = value.weights.numpy().reshape(shape)
    return found


def _array(values: Any, spec: FieldSpec) -> Any:
    if isinstance(values, Strings):
        return values.to_objects()
    array = values.numpy() if isinstance(values, torch.Tensor) else values
    return array.astype("int64") if spec.dtype == "bool" else array


def _inputs(spec: FieldSpec) -> list[Input]:
    dtype = "int64" if spec.dtype == "bool" else spec.dtype
    offsets = offsets_key(spec.name) if spec.ragged else None
    shape: tuple[Dim, ...] = (dims.symbol(f"N_{spec.name}"),) if spec.ragged else (BATCH, spec.width)
    found = [Input(spec.name, dtype, shape, offsets=offsets)]
    if spec.weighted:
        found.append(Input(weights_key(spec.name), "float32", shape, offsets=offsets))
    if offsets is not None:
        found.append(Input(offsets, "int64", (dims.add(BATCH, 1),)))
    return found


def _column(feature: Feature, features: FeatureSet, rows: Mapping[str, int]) -> tuple[Column, int] | None:
    """The column of a feature and its width; None where it is neither embedded nor dense."""
    known = features.known(feature.expr)
    if feature.embedding is None and not feature.is_dense:
        return None
    if known.rows.levels != 1:
        raise ShapeError("a column has no rows of lists")
    plain = _Plain(features)
    ids = plain.of(feature.expr)
    weights = plain.weights(feature.expr) if known.weighted and not feature.is_dense else None
    filters = tuple(dict.fromkeys(plain.filters))
    if feature.embedding is None:
        assert known.rows.width is not None
        return Column(
            feature.name, ids, None, "none", slots=(Slot(buffer_name(feature.name), 0, known.rows.width),)
        ), known.rows.width
    pooling, width = feature.embedding.pooling, feature.embedding.embedding_dim
    if pooling in ("none", "tile"):
        if known.rows.width is None or feature.embedding.length not in (None, known.rows.width):
            raise ShapeError("a column's sequences are those of a dense field, of its own width")
        pooling, width = "none", width * known.rows.width
    slot = Slot(buffer_name(feature.name), 0, width)
    return Column(feature.name, ids, feature.embedding.table, pooling, filters, weights, slots=(slot,)), width


class _Plain:
    """Expressions over elements: what is kept becomes the filters of a column, factors become its weights."""

    def __init__(self, features: FeatureSet) -> None:
        self.features = features
        self.filters: list[Expr] = []

    def of(self, expr: Expr) -> Expr:
        """The elements. Errors: ShapeError on an op of whole rows that is none of a column's."""
        if isinstance(expr, Field):
            dtype = self.features.specs[expr.name].dtype
            if dtype == "bool":
                return Apply(Clip(0, 1), expr)  # says of a request's int64 what is known of a bool
            return Apply(Cast(READ_AS["int32"]), expr) if dtype == "int32" else expr
        assert isinstance(expr, Apply)
        if isinstance(expr.op, Keep):
            x, predicate = expr.args
            found = self.of(x)
            self.filters.append(self.of(predicate))
            return found
        if isinstance(expr.op, Weigh):
            return self.of(expr.args[0])
        if isinstance(expr.op, RaggedOp):
            raise ShapeError(f"a column cannot hold {expr.op.name}, which works on whole rows")
        if isinstance(expr.op, ExpandOp) and not isinstance(expr.args[0], Field):
            raise ShapeError(f"a column can {expr.op.name} a field, and nothing that is made of one")
        return Apply(expr.op, *map(self.of, expr.args))

    def weights(self, expr: Expr) -> Expr:
        """The weights. Errors: ShapeError where they are a product."""
        factors = list(self.factors(expr))
        if len(factors) != 1:
            raise ShapeError(
                "a column's weights are one field, or one number an element", got=f"{len(factors)} factors"
            )
        return factors[0]

    def factors(self, expr: Expr) -> list[Expr]:
        """What is multiplied."""
        if isinstance(expr, Field):
            return [Field(weights_key(expr.name))] if self.features.specs[expr.name].weighted else []
        assert isinstance(expr, Apply)
        found = self.factors(expr.args[0])
        if isinstance(expr.op, Weigh):
            factor = expr.args[1]
            if self.features.known(factor).elements.dtype != "float32":
                raise ShapeError("a column's weights are no predicate: filter the elements instead")
            found.append(self.of(factor))
        return found
