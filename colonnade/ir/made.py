"""Inputs that the host makes of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.core.expr import Apply, Expr, Field


def evaluated(expr: Expr, values: Mapping[str, Any]) -> Any:
    """An expression of graph ops over whole inputs, by the ops' references."""
    if isinstance(expr, Field):
        return values[expr.name]
    assert isinstance(expr, Apply)
    return expr.op.reference(*(evaluated(arg, values) for arg in expr.args))
