"""Features that are checked together: what each proves of its elements and rows, and the tables they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from colonnade.core.expr import Apply, Expr, Field, fields_of
from colonnade.errors import ColonnadeError, FeatureError, ShapeError, listed
from colonnade.frontends.feature import FIELD_DTYPES, POOLINGS, TABLE_DTYPES, Feature, FieldSpec, TableSpec
from colonnade.ir.element_facts import field_facts
from colonnade.ops.cast import BOUNDS
from colonnade.ops.op import ElementFacts, ExpandOp, FilterOp, PositionOp, RaggedOp, RowFacts

READ_AS = {"int32": "int64", "bool": "int64"}
"""Dtypes of fields whose elements are read as another."""


@dataclass(frozen=True)
class Known:
    """What is known of a feature before any batch. weighted: whether its elements have weights."""

    elements: ElementFacts
    rows: RowFacts
    weighted: bool


@dataclass(frozen=True)
class FeatureSet:
    """The features of a model and the fields they are made of.

    Errors: FeatureError that lists every feature, field and table that is wrong.
    """

    features: tuple[Feature, ...]
    fields: tuple[FieldSpec, ...]

    def __init__(self, features: Sequence[Feature], fields: Sequence[FieldSpec]) -> None:
        object.__setattr__(self, "features", tuple(features))
        object.__setattr__(self, "fields", tuple(fields))
        wrong = [*self._fields(), *self._names(), *self._features(), *self._tables()]
        if wrong:
            raise FeatureError(f"{len(wrong)} faults in the features", got=listed(wrong))

    @cached_property
    def specs(self) -> dict[str, FieldSpec]:
        """The fields by name."""
        return {f.name: f for f in self.fields}

    @cached_property
    def read(self) -> tuple[FieldSpec, ...]:
        """The fields that some feature reads."""
        names = {name for f in self.features for name in fields_of(f.expr)}
        return tuple(f for f in self.fields if f.name in names)

    @cached_property
    def tables(self) -> tuple[TableSpec, ...]:
        """Every table once, in order of first use."""
        return tuple(dict.fromkeys(f.table for f in self.features if f.table is not None))

    def known(self, expr: Expr) -> Known:
        """What is known of an expression. Errors: ShapeError on operands that an op cannot take."""
        found = self._memo.get(expr)
        if found is None:
            found = self._memo[expr] = self._infer(expr)
        return found

    @cached_property
    def _memo(self) -> dict[Expr, Known]:
        return {}

    def _infer(self, expr: Expr) -> Known:
        if isinstance(expr, Field):
            spec = self.specs.get(expr.name)
            if spec is None:
                raise ShapeError("reads a field that is not declared", got=expr.name)
            dtype = READ_AS.get(spec.dtype, spec.dtype)
            facts = ElementFacts(dtype, 0, 1) if spec.dtype == "bool" else field_facts(spec.dtype)
            rows = RowFacts(1, spec.width) if spec.ragged == 0 else RowFacts(spec.ragged)
            return Known(ElementFacts(dtype, facts.lo, facts.hi), rows, spec.weighted)
        assert isinstance(expr, Apply)
        args = [self.known(a) for a in expr.args]
        op = expr.op
        most = op.most if isinstance(op, RaggedOp) else op.arity
        if not op.arity <= len(args) <= most:
            raise ShapeError(f"{op.name} takes {op.arity} operands" + (f" to {most}" if most > op.arity else ""))
        elements = op.infer(*(a.elements for a in args))
        weighted = any(a.weighted for a in args) if isinstance(op, RaggedOp) else args[0].weighted
        if isinstance(op, RaggedOp):
            return Known(elements, op.rows(*(a.rows for a in args)), weighted or op.name == "weigh")
        if isinstance(op, PositionOp):
            raise ShapeError(f"{op.name} needs places in rows, which a feature has not")
        if any(a.rows != args[0].rows for a in args):
            raise ShapeError(f"{op.name} takes operands of one number of elements in every row")
        return Known(elements, RowFacts(args[0].rows.levels) if isinstance(op, ExpandOp) else args[0].rows, weighted)

    # --- faults -----------------------------------------------------------------------------------------------------
    def _fields(self) -> Iterator[str]:
        for spec in self.fields:
            if spec.dtype not in FIELD_DTYPES:
                yield f"field {spec.name!r} is of dtype {spec.dtype!r}, not {', '.join(FIELD_DTYPES)}"
            if spec.ragged not in (0, 1, 2) or spec.width < 1 or (spec.ragged and spec.width != 1):
                yield f"field {spec.name!r} has {spec.ragged} levels of offsets and width {spec.width}"
        yield from (f"two fields are named {name!r}" for name in _twice(f.name for f in self.fields))

    def _names(self) -> Iterator[str]:
        yield from (f"two features are named {name!r}" for name in _twice(f.name for f in self.features))

    def _features(self) -> Iterator[str]:
        for feature in self.features:
            missing = [name for name in fields_of(feature.expr) if name not in self.specs]
            if missing:
                names = ", ".join(map(repr, missing))
                yield f"feature {feature.name!r} reads {names}, which no field is named"
                continue
            if any(self.specs[name].dtype not in FIELD_DTYPES for name in fields_of(feature.expr)):
                continue  # said of the field
            try:
                known = self.known(feature.expr)
            except ColonnadeError as e:
                yield f"feature {feature.name!r}: {e.message}" + (f", got {e.got}" if e.got else "")
                continue
            yield from (f"feature {feature.name!r} {fault}" for fault in _output_faults(feature, known))

    def _tables(self) -> Iterator[str]:
        by_name: dict[str, list[Feature]] = {}
        for feature in self.features:
            if feature.table is not None:
                by_name.setdefault(feature.table.name, []).append(feature)
        for name, users in by_name.items():
            said = dict.fromkeys(f.table for f in users)
            if len(said) > 1:
                differ = "; ".join(f"{f.name!r}: {_said(f.table)}" for f in users if f.table is not None)
                yield f"table {name!r} is declared in {len(said)} ways by features {differ}"
            for spec in said:
                assert spec is not None
                if spec.embedding_dim < 1 or spec.dtype not in TABLE_DTYPES:
                    yield f"table {name!r} is {_said(spec)}; dtypes are {', '.join(TABLE_DTYPES)}"


def _output_faults(feature: Feature, known: Known) -> Iterator[str]:
    if isinstance(feature.expr, Apply) and isinstance(feature.expr.op, FilterOp):
        yield "is a predicate: give it to filter or weigh"
    dtype, rows = known.elements.dtype, known.rows
    if feature.is_dense:
        if feature.embedding is not None:
            yield "is both dense and embedded"
        if dtype == "string" or rows.levels != 1 or rows.width is None:
            yield f"is dense, but its rows are no fixed number of numbers ({dtype})"
        return
    if feature.embedding is None:
        return
    if dtype not in BOUNDS:
        yield f"is embedded, but its elements are {dtype}: ids are integers"
    pooling, length = feature.embedding.pooling, feature.embedding.length
    if pooling not in POOLINGS:
        yield f"has pooling {pooling!r}, not {', '.join(POOLINGS)}"
    if (pooling == "tile" and length is None) or (length is not None and length < 1):
        yield f"has pooling {pooling!r} and length {length}"
    if length is not None and pooling not in ("none", "tile"):
        yield f"has a length, which the pooling {pooling!r} does not take: truncate it instead"


def _said(spec: TableSpec) -> str:
    more = [f"{k} {v}" for k, v in (("initializer", spec.initializer), ("optimizer", spec.optimizer)) if v is not None]
    return ", ".join([f"{spec.dtype}[{spec.embedding_dim}]", *more])


def _twice(names: Iterator[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
