"""Strings that the host makes of input strings: inputs of their own to the columns that read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from colonnade.core.expr import Apply, Expr, Field, fields_of, walk
from colonnade.ir.graph import Node, args_of, facts_of, op_of
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.graph.expand_dims import ExpandDims
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.reshape import Reshape
from colonnade.ops.graph.split_rows import SplitRows
from colonnade.ops.graph.squeeze import Squeeze
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.passes.base import Reject

SAME = (ExpandDims, Reshape, Squeeze, StridedSlice)
"""Ops that keep all elements in order, where they keep their number and go by steps of 1."""


def strings_of(node: Node, key: Callable[[Node], str]) -> Expr | Reject:
    """What a node makes of inputs, all of the node's shape, or of one string in all: rows of tokens are of such.

    key: the name of an input.
    """
    op = op_of(node)
    if isinstance(op, Placeholder):
        return Field(key(node))
    if isinstance(op, SplitRows):
        return _split(node, op, key)
    if not isinstance(op, OnHost):
        return Reject(f"strings are made by {op.name if op else node}, which the host does not do")
    parts: list[Expr] = []
    for arg in args_of(node):
        if facts_of(arg).shape is None or facts_of(arg).shape != facts_of(node).shape:
            return Reject(f"an operand of {op.name} is broadcast")
        text = as_given(arg) if len(args_of(node)) == 1 else arg
        part = strings_of(text, key)
        if isinstance(part, Reject):
            return part
        if text is not arg and (isinstance(text.target, SplitRows) or facts_of(node).rank != 1):
            return Reject(f"the operand of {op.name} had another shape")
        parts.append(part)
    return Apply(op, *parts)


def as_given(text: Node) -> Node:
    """Strings, in the shape that they had before ops that keep all in order."""
    while isinstance(text.target, SAME):
        x = args_of(text)[0]
        steps = facts_of(args_of(text)[3]).ints if isinstance(text.target, StridedSlice) else (1,)
        if facts_of(x).size is None or facts_of(x).size != facts_of(text).size or set(steps or (0,)) != {1}:
            break
        text = x
    return text


def _split(node: Node, op: SplitRows, key: Callable[[Node], str]) -> Expr | Reject:
    """Rows of tokens, whose number of places has the name that inference knows."""
    (text,) = args_of(node)
    made, shape = strings_of(text, key), facts_of(node).shape
    if isinstance(made, Reject):
        return made
    if isinstance(text.target, SplitRows) or shape is None or not facts_of(text).shape:
        return Reject("what is split has no rows of its own")
    return Apply(replace(op, symbol=str(shape[1])) if op.width is None else op, made)


def name_of(expr: Expr) -> str:
    """What an input of such strings is called."""
    ops = [e.op.name.removeprefix("string_") for e in walk(expr) if isinstance(e, Apply)]
    return "+".join(fields_of(expr)) + "." + "-".join(ops)
