"""Columns in which each element of a field is a row of its own: fields whose rows have no fixed width."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

import numpy as np
import sympy

from colonnade.core import dims
from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.facts import Shape
from colonnade.ir.column import Column
from colonnade.ir.graph import Node, facts_of
from colonnade.ops.graph.shape_construct import ShapeConstruct
from colonnade.passes.base import Editor

_SUFFIX = ".elements"


def elements_name(name: str) -> str:
    """The name of the input that is the elements of another."""
    return name + _SUFFIX


def source_name(name: str) -> str:
    """The name of the input whose elements an input is."""
    return name.removesuffix(_SUFFIX)


def taken_reason(names: Iterable[str], taken: Container[str]) -> str | None:
    """Why the elements of inputs can have no names."""
    for name in names:
        if elements_name(name) in taken:
            return f"an input has the name {elements_name(name)!r} of the elements of {name!r}"
    return None


def of_elements(column: Column) -> Column:
    """The column that reads the elements of its fields."""
    return replace(column, ids=_renamed(column.ids), filters=tuple(map(_renamed, column.filters)))


def _renamed(expr: Expr) -> Expr:
    if isinstance(expr, Field):
        return Field(elements_name(expr.name))
    assert isinstance(expr, Apply)
    return Apply(expr.op, *map(_renamed, expr.args))


def shape_of(editor: Editor, shape: Shape, sources: Sequence[Node]) -> Node:
    """A shape as the second operand of a reshape. Facts: the symbols in it are dims of the sources."""
    if sum(not isinstance(d, int) for d in shape) <= 1:
        return editor.constant(np.array([d if isinstance(d, int) else -1 for d in shape], np.int64))
    places: dict[sympy.Symbol, tuple[int, int]] = {}
    for k, node in enumerate(sources):
        for axis, d in enumerate(facts_of(node).shape or ()):
            if isinstance(d, sympy.Symbol):
                places.setdefault(d, (k, axis))
    symbols = sorted({s for d in shape for s in dims.symbols_of(d)}, key=str)
    read = sorted({places[s][0] for s in symbols})
    told = tuple((str(s), read.index(places[s][0]), places[s][1]) for s in symbols)
    return editor.add(ShapeConstruct(tuple(map(dims.text, shape)), told), *(sources[k] for k in read))
