"""Tables that are made of variables: what they are made of, their names, and their rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core.expr import Apply, Expr, Field
from colonnade.ir.graph import Node, args_of
from colonnade.ops.graph.clip_rows import ClipRows
from colonnade.ops.graph.join_shards import JoinShards
from colonnade.ops.graph.variable import Variable
from colonnade.ops.op import GraphOp

Array = npt.NDArray[Any]
Read = Callable[[int, int], Array]

TABLE_OPS: Mapping[str, type[GraphOp]] = {op.name: op for op in (ClipRows, JoinShards)}
BLOCK = 4 << 20
"""Rows are made so many bytes at a time."""
_PART = re.compile(r"(.+)/part_(\d+)")


def made_of(node: Node) -> Expr | None:
    """What a node's rows are made of, over variables by name; None where that is something else."""
    op = node.target
    if isinstance(op, Variable):
        return Field(op.key)
    if not isinstance(op, tuple(TABLE_OPS.values())):
        return None
    parts = [made_of(x) for x in args_of(node)]
    return None if None in parts else Apply(op, *(p for p in parts if p is not None))


def name_of(made: Expr) -> str:
    """The name of a table: its variable's, or its parts', with what was done to them.

    Facts: no two expressions have one name; no variable has brackets in its own.
    """
    if isinstance(made, Field):
        return made.name
    assert isinstance(made, Apply)
    names = [name_of(x) for x in made.args]
    if isinstance(made.op, ClipRows):
        return f"{names[0]}[max_norm {made.op.max_norm!r}]"
    found = [_PART.fullmatch(name) for name in names]
    numbered = [(m[1], int(m[2])) for m in found if m is not None]
    whole = numbered == [(numbered[0][0], k) for k in range(len(names))] if numbered else False
    kind = "parts" if made.op.strategy == "div" else "parts by turns"
    return f"{numbered[0][0] if whole else '+'.join(names)}[{len(names)} {kind}]"


def rows_of(made: Expr, store: Mapping[str, Array]) -> Array:
    """The rows: a variable's as they lie in the store, else an array of their own, made block by block."""
    if isinstance(made, Field):
        return store[made.name]
    (rows, width), dtype, read = _reader(made, store)
    found = np.empty((rows, width), dtype)
    step = max(1, BLOCK // max(1, found.itemsize * width))
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        found[start:stop] = read(start, stop)
    return found


def _reader(made: Expr, store: Mapping[str, Array]) -> tuple[tuple[int, int], Any, Read]:
    """Shape, dtype, and what gives some of the rows."""
    if isinstance(made, Field):
        held = store[made.name]
        return held.shape, held.dtype, lambda start, stop: held[start:stop]
    assert isinstance(made, Apply)
    op = made.op
    if isinstance(op, ClipRows):
        shape, dtype, read = _reader(made.args[0], store)
        return shape, dtype, lambda start, stop: op.rows(read(start, stop))
    assert isinstance(op, JoinShards)
    parts = [rows_of(x, store) for x in made.args]
    total = sum(map(len, parts))
    return (total, parts[0].shape[1]), parts[0].dtype, lambda start, stop: op.rows(parts, start, stop)
