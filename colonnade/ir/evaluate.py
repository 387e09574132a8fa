"""The elements of a column: expressions evaluated on flat values, filters applied, each element with its batch row.

Legend: B batch rows, E elements. A *domain* is the chain of expansions that an element came through: `()` for the
elements of a field themselves, `(split,)` for their tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import GraphError, ShapeError
from colonnade.ir.column import Column
from colonnade.ops.op import ExpandOp, PositionOp, Value

Domain = tuple[Expr, ...]


@dataclass(frozen=True)
class Elements:
    """The elements of a column that its filters keep, in order.

    Shapes: ids [E], rows [E] (nondecreasing), positions [E] (place within the row before filtering), weights [E].
    """

    ids: torch.Tensor
    rows: torch.Tensor
    positions: torch.Tensor
    weights: torch.Tensor | None


@dataclass(frozen=True)
class _Domain:
    chain: Domain
    rows: torch.Tensor
    positions: torch.Tensor


class _Evaluator:
    """Values of expressions for given fields; every expansion is computed once."""

    def __init__(self, fields: Mapping[str, Value], positions: torch.Tensor) -> None:
        self.fields = fields
        self.positions = positions
        self.done: dict[Expr, tuple[Value, Domain]] = {}
        self.counts: dict[Expr, torch.Tensor] = {}

    def value(self, expr: Expr) -> tuple[Value, Domain]:
        """The flat value and its domain."""
        found = self.done.get(expr)
        if found is None:
            found = self.done[expr] = self._compute(expr)
        return found

    def in_domain(self, expr: Expr, chain: Domain) -> Value:
        """The value, repeated for every element that its own came to be in a longer chain."""
        value, have = self.value(expr)
        if chain[: len(have)] != have:
            raise GraphError("a column mixes elements of different expansions", got=repr(expr))
        for expansion in chain[len(have) :]:
            value = repeated(value, self.counts[expansion])
        return value

    def _compute(self, expr: Expr) -> tuple[Value, Domain]:
        if isinstance(expr, Field):
            return self.fields[expr.name], ()
        assert isinstance(expr, Apply)
        args = [self.value(a) for a in expr.args]
        chain = max((domain for _, domain in args), key=len)
        operands = [self.in_domain(a, chain) for a in expr.args]
        if len({len(o) for o in operands}) > 1:
            raise ShapeError("the operands of a column op have different numbers of elements", where=repr(expr))
        if isinstance(expr.op, ExpandOp):
            value, self.counts[expr] = expr.op.expand(operands[0])
            return value, (*chain, expr)
        if isinstance(expr.op, PositionOp):
            if chain:
                raise GraphError("tokens have no places in their rows", got=repr(expr))
            operands.append(self.positions)
        return expr.op.reference(*operands), chain


def repeated(value: Value, counts: torch.Tensor) -> Value:
    """Element i, `counts[i]` times."""
    if isinstance(value, torch.Tensor):
        return value.repeat_interleave(counts)
    return value.repeat(counts.numpy())


def select(value: Value, keep: torch.Tensor) -> Value:
    """The elements where `keep` is true."""
    return value[keep] if isinstance(value, torch.Tensor) else value[keep.numpy()]


def elements_of(
    column: Column, fields: Mapping[str, Value], num_rows: int, lengths: torch.Tensor | None = None
) -> Elements:
    """The column's elements for a batch; the fields' values are flat, row-major.

    lengths: elements of each batch row where the fields are ragged.   Shapes: `[num_rows]`.
    Facts: filters on fields apply before anything else is computed, so that a dropped element cannot raise.
    """
    num = len(next(iter(fields.values())))
    if any(len(value) != num for value in fields.values()):
        raise ShapeError("the fields of a column have different numbers of elements", where=f"column {column.name!r}")
    if lengths is None:
        lengths = torch.full((num_rows,), num // num_rows if num_rows else 0, dtype=torch.int64)
    rows = torch.arange(num_rows).repeat_interleave(lengths)
    positions = torch.arange(num) - (lengths.cumsum(0) - lengths)[rows]
    keep = torch.ones(num, dtype=torch.bool)
    first = _Evaluator(fields, positions)
    early = [f for f in column.filters if not expands(f)]
    for predicate in early:
        mask = first.value(predicate)[0]
        assert isinstance(mask, torch.Tensor)
        keep &= mask
    kept = {name: select(value, keep) for name, value in fields.items()}
    return _late(column, _Evaluator(kept, positions[keep]), rows[keep], positions[keep])


def _late(column: Column, evaluator: _Evaluator, rows: torch.Tensor, positions: torch.Tensor) -> Elements:
    late = [f for f in column.filters if expands(f)]
    exprs = [column.ids, *late, *([column.weights] if column.weights is not None else [])]
    chain = max((evaluator.value(e)[1] for e in exprs), key=len)
    keep = torch.ones(len(evaluator.in_domain(column.ids, chain)), dtype=torch.bool)
    for predicate in late:
        mask = evaluator.in_domain(predicate, chain)
        assert isinstance(mask, torch.Tensor)
        keep &= mask
    for expansion in chain:
        rows, positions = (x.repeat_interleave(evaluator.counts[expansion]) for x in (rows, positions))
    ids = select(evaluator.in_domain(column.ids, chain), keep)
    assert isinstance(ids, torch.Tensor)
    weights = None
    if column.weights is not None:
        factor = select(evaluator.in_domain(column.weights, chain), keep)
        assert isinstance(factor, torch.Tensor)
        weights = factor.float()
    return Elements(ids, rows[keep], positions[keep], weights)


def expands(expr: Expr) -> bool:
    """Whether an expansion is in an expression: whether it gives any number of values an element."""
    return isinstance(expr, Apply) and (isinstance(expr.op, ExpandOp) or any(expands(a) for a in expr.args))
