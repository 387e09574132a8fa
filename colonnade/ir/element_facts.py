"""What the ops of an expression prove of its elements, from the dtypes of the fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from colonnade.core.expr import Apply, Expr, Field
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.cast import BOUNDS
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.op import ElementFacts


def element_facts(expr: Expr, dtypes: Mapping[str, str]) -> ElementFacts:
    """dtype and proven bounds. Errors: ShapeError on a dtype that an op cannot take."""
    if isinstance(expr, Field):
        return field_facts(dtypes[expr.name])
    assert isinstance(expr, Apply)
    found: ElementFacts = expr.op.infer(*(element_facts(arg, dtypes) for arg in expr.args))
    return found


def field_facts(dtype: str) -> ElementFacts:
    """What the dtype of a field says of its elements."""
    return ElementFacts(dtype, *BOUNDS.get(dtype, (None, None)))


def inside(ids: Expr, known: ElementFacts, filters: Iterable[Expr], rows: int) -> bool:
    """Whether every id of an element that all filters keep is proven to be a row of a table, given its own bounds."""
    lo, hi = known.lo, known.hi
    for predicate in filters:
        if isinstance(predicate, Apply) and predicate.args == (ids,):
            if isinstance(predicate.op, AtLeast):
                lo = predicate.op.bound if lo is None else max(lo, predicate.op.bound)
            elif isinstance(predicate.op, AtMost):
                hi = predicate.op.bound if hi is None else min(hi, predicate.op.bound)
    return lo is not None and hi is not None and lo >= 0 and hi < rows


def keeps_all(predicate: Expr, dtypes: Mapping[str, str]) -> bool:
    """Whether a filter is proven to drop nothing: its condition holds over the whole range of what it looks at."""
    assert isinstance(predicate, Apply)
    op, known = predicate.op, element_facts(predicate.args[0], dtypes)
    if known.lo is None or known.hi is None:
        return False
    if isinstance(op, AtLeast):
        return known.lo >= op.bound
    if isinstance(op, AtMost):
        return known.hi <= op.bound
    return isinstance(op, NotEqual) and isinstance(op.value, int) and not known.lo <= op.value <= known.hi
