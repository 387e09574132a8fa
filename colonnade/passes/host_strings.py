"""Strings that the host makes of input strings: inputs of their own to the columns that read them."""

from __future__ import annotations

from collections.abc import Callable

from colonnade.core.expr import Apply, Expr, Field, fields_of, walk
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.passes.base import Reject


def strings_of(node: Node, key: Callable[[Node], str]) -> Expr | Reject:
    """What a node makes of inputs, all of the node's shape.   key: the name of an input."""
    op = op_of(node)
    if isinstance(op, Placeholder):
        return Field(key(node))
    if not isinstance(op, OnHost):
        return Reject(f"strings are made by {op.name if op else node}, which the host does not do")
    parts: list[Expr] = []
    for arg in args_of(node):
        if facts_of(arg).shape is None or facts_of(arg).shape != facts_of(node).shape:
            return Reject(f"an operand of {op.name} is broadcast")
        part = strings_of(arg, key)
        if isinstance(part, Reject):
            return part
        parts.append(part)
    return Apply(op, *parts)


def name_of(expr: Expr) -> str:
    """What an input of such strings is called."""
    ops = [e.op.name.removeprefix("string_") for e in walk(expr) if isinstance(e, Apply)]
    return "+".join(fields_of(expr)) + "." + "-".join(ops)
