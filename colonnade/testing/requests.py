"""Requests for any program: ordinary and corner rows, from the boundaries, separators and id ranges of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.backends.sizes import dim_function
from colonnade.core.consts import Const
from colonnade.core.dims import symbols_of
from colonnade.core.expr import Apply, Expr, Field, fields_of, walk
from colonnade.ir.column import Column
from colonnade.ir.program import Program
from colonnade.testing.models.feeds import Feed, Hints, corner_batch, corner_feed, missing_feed, ordinary_feed
from colonnade.testing.models.spec import TensorSpec

Array = NDArray[Any]

KINDS = ("ordinary", "corner", "missing")
_SIZES = (1, 2, 3, 5)
_PLAIN = frozenset({"cast", "clip"})
"""Column ops behind which an integer field still is the id."""


@dataclass(frozen=True)
class Request:
    """A named request. Facts: every input whose first dim is a symbol has `rows` rows."""

    name: str
    rows: int
    feed: Feed


def hints_from(program: Program) -> Hints:
    """What the columns say of their fields: where ids change, what splits strings, which ids exist, which words."""
    boundaries: dict[str, list[float]] = {}
    separators: dict[str, bytes] = {}
    ids: dict[str, tuple[int, int]] = {}
    words: dict[str, list[bytes]] = {}
    for column in program.columns:
        for op, field in _applied(column):
            for key, value in op.attributes():
                if key == "boundaries" and isinstance(value, Const):
                    boundaries.setdefault(field, []).extend(float(x) for x in value.array.reshape(-1))
                elif key == "separator" and value:
                    separators[field] = value
                elif isinstance(value, Const) and value.array.dtype == object:
                    words.setdefault(field, []).extend(value.array.reshape(-1))
        field_name = _plain_ids(column)
        if field_name is not None:
            rows = program.table(str(column.table)).rows
            ids[field_name] = (0, min(rows, ids.get(field_name, (0, rows))[1]))
    found = {name: tuple(sorted(set(values))) for name, values in boundaries.items()}
    return Hints(boundaries=found, separators=separators, ids=ids, vocabulary=words)


def _applied(column: Column) -> Iterator[tuple[Any, str]]:
    """Every op of a column with the first field it reads."""
    for expr in (column.ids, *column.filters):
        for node in walk(expr):
            if isinstance(node, Apply) and fields_of(node):
                yield node.op, fields_of(node)[0]


def _plain_ids(column: Column) -> str | None:
    """The field that is the id itself."""
    expr: Expr = column.ids
    while isinstance(expr, Apply) and expr.op.name in _PLAIN and len(expr.args) == 1:
        expr = expr.args[0]
    return expr.name if isinstance(expr, Field) and column.table is not None else None


def make_request(program: Program, kind: str, rows: int, seed: int = 0) -> Request:
    """A request of one of `KINDS`; the same arguments give the same request."""
    rng = np.random.default_rng([seed, rows, KINDS.index(kind)])
    hints = hints_from(program)
    specs = _specs(program, rows, np.random.default_rng(seed))
    if kind == "missing":
        feed = missing_feed(specs, rows, hints)
    else:
        feed = (ordinary_feed if kind == "ordinary" else corner_feed)(specs, rows, rng, hints)
    return Request(f"{kind}-{rows}", rows, feed)


def corner_rows(program: Program) -> int:
    """The rows of a corner request that shows every corner of every input, each boundary among them."""
    return corner_batch(_specs(program, 1, np.random.default_rng(0)), hints_from(program))


def _specs(program: Program, rows: int, rng: np.random.Generator) -> tuple[TensorSpec, ...]:
    """The inputs with one size a symbol: the first dim of an input is the batch, others depend on the seed alone."""
    sizes: dict[str, int] = {}
    for item in program.inputs:
        for place, dim in enumerate(item.shape):
            for symbol in symbols_of(dim):
                sizes.setdefault(str(symbol), rows if place == 0 else int(rng.choice(_SIZES)))
    specs = []
    for item in program.inputs:
        shape = tuple(dim if isinstance(dim, int) else dim_function(dim)(sizes) for dim in item.shape)
        specs.append(TensorSpec(item.name, item.dtype, shape))
    return tuple(specs)


def batched(program: Program) -> frozenset[str]:
    """The inputs that have a row for each row of the request."""
    return frozenset(i.name for i in program.inputs if i.shape and not isinstance(i.shape[0], int))


def take(program: Program, request: Request, rows: Sequence[int] | NDArray[np.int64]) -> Request:
    """The request with only these rows."""
    chosen = np.asarray(rows, np.int64)
    by_row = batched(program)
    feed = {key: value[chosen] if key in by_row else value for key, value in request.feed.items()}
    return Request(request.name, len(chosen), feed)


def joined(program: Program, requests: Sequence[Request], name: str) -> Request:
    """One request with the rows of several. Facts: inputs without rows are those of the first."""
    by_row = batched(program)
    first: Mapping[str, Array] = requests[0].feed
    feed = {
        key: np.concatenate([r.feed[key] for r in requests]) if key in by_row else value for key, value in first.items()
    }
    return Request(name, sum(r.rows for r in requests), feed)
