"""Programs that are wrong in one place: a verification must notice each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr
from colonnade.ir.column import Column
from colonnade.ir.program import Program, Weights

Wrong = Callable[[Program, Weights], tuple[Program, Weights]]


def _replaced(program: Program, old: Column, new: Column) -> Program:
    return replace(program, columns=tuple(new if c is old else c for c in program.columns))


def _rewritten(expr: Expr, name: str, change: Callable[[object], object]) -> Expr:
    if not isinstance(expr, Apply):
        return expr
    op = change(expr.op) if expr.op.name == name else expr.op
    return Apply(op, *(_rewritten(a, name, change) for a in expr.args))


def _column(program: Program, prefix: str) -> Column:
    return next(c for c in program.columns if c.name.startswith(prefix))


def wrong_boundary(program: Program, weights: Weights) -> tuple[Program, Weights]:
    """One boundary of one column is off by one ulp."""
    column = _column(program, "num_")

    def change(op: object) -> object:
        array = op.boundaries.array.copy()  # type: ignore[attr-defined]
        array[3] = np.nextafter(array[3], np.float32(np.inf))
        return replace(op, boundaries=Const(array))  # type: ignore[type-var]

    return _replaced(program, column, replace(column, ids=_rewritten(column.ids, "bucketize", change))), weights


def wrong_table_row(program: Program, weights: Weights) -> tuple[Program, Weights]:
    """One value of one row of one table is off by one ulp: the row of the value 0."""
    name = str(_column(program, "num_").table)
    table = np.array(weights.tables[name])
    table[1, 0] = np.nextafter(table[1, 0], np.float32(np.inf))
    return program, replace(weights, tables={**weights.tables, name: table})


def swapped_slots(program: Program, weights: Weights) -> tuple[Program, Weights]:
    """Two columns of one width write into each other's slots."""
    first, second, *_ = [c for c in program.columns if c.name.startswith("num_")]
    made = _replaced(program, first, replace(first, slots=second.slots))
    return _replaced(made, second, replace(second, slots=first.slots)), weights


def wrong_divisor(program: Program, weights: Weights) -> tuple[Program, Weights]:
    """A hash is reduced by another number."""
    column = _column(program, "str_")
    ids = _rewritten(column.ids, "mod", lambda op: replace(op, divisor=op.divisor - 1))  # type: ignore[attr-defined, type-var]
    return _replaced(program, column, replace(column, ids=ids)), weights


def wrong_pooling(program: Program, weights: Weights) -> tuple[Program, Weights]:
    """A sum is a mean: the same for rows of one element."""
    column = _column(program, "split_")
    return _replaced(program, column, replace(column, pooling="mean")), weights


def lost_filter(program: Program, weights: Weights) -> tuple[Program, Weights]:
    """Missing values are looked up."""
    column = _column(program, "int_")
    assert column.filters
    return _replaced(program, column, replace(column, filters=())), weights


def wrong_parameter(program: Program, weights: Weights) -> tuple[Program, Weights]:
    """A weight of the dense rest is off by a thousandth of its size."""
    name = next(name for name, _, shape in program.params if len(shape) == 2)
    tensor = torch.clone(weights.params[name])
    tensor *= 1.001
    return program, replace(weights, params={**weights.params, name: tensor})


WRONG: tuple[Wrong, ...] = (
    wrong_boundary,
    wrong_table_row,
    swapped_slots,
    wrong_divisor,
    wrong_pooling,
    lost_filter,
    wrong_parameter,
)
