"""What the ops of an expression prove of its elements, from the dtypes of the fields."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.core.expr import Apply, Expr, Field
from colonnade.ops.at_least import AtLeast
from colonnade.ops.at_most import AtMost
from colonnade.ops.cast import BOUNDS
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.op import ElementFacts


def element_facts(expr: Expr, dtypes: Mapping[str, str]) -> ElementFacts:
    """dtype and proven bounds. Errors: ShapeError on a dtype that an op cannot take."""
    if isinstance(expr, Field):
        dtype = dtypes[expr.name]
        return ElementFacts(dtype, *BOUNDS.get(dtype, (None, None)))
    assert isinstance(expr, Apply)
    found: ElementFacts = expr.op.infer(*(element_facts(arg, dtypes) for arg in expr.args))
    return found


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
