"""The fields of choices: their names, and expressions over them."""

from __future__ import annotations

import re

from colonnade.core.expr import Apply, Expr, Field, walk
from colonnade.ops.add_place import AddPlace
from colonnade.ops.add_position import AddPosition
from colonnade.ops.op import PositionOp
from colonnade.ops.split import Split


def chosen_name(among: tuple[str, ...], splits: tuple[bytes, ...], place: int | None, *, numbered: bool = False) -> str:
    """The name of the input that holds choices of one of these fields, or the places of what is chosen in its row.

    place: None: of their offsets.   Facts: no two choices have one name: what joins names is escaped within them.
    """
    ends = [f"[{_escaped(by.decode('latin-1'))}]" if by else "" for by in splits or (b"",) * len(among)]
    names = "*".join(_escaped(name) + end for name, end in zip(among, ends, strict=True))
    return f"{names}.{'offsets' if place is None else place}{'.place' if numbered else ''}"


def _escaped(name: str) -> str:
    return re.sub(r"[\\*\[\]]", r"\\\g<0>", name)


def renamed(expr: Expr, name: str, number: str) -> Expr:
    """The expression of one field over another, whose elements have the places that a third says."""
    if not isinstance(expr, Apply) or (isinstance(expr.op, Split) and isinstance(expr.args[0], Field)):
        return Field(name)
    args = tuple(renamed(x, name, number) for x in expr.args)
    if isinstance(expr.op, AddPosition):
        return Apply(AddPlace(expr.op.stride, expr.op.width), *args, Field(number))
    return Apply(expr.op, *args)


def by_place(expr: Expr) -> bool:
    """Whether an expression depends on places in rows."""
    return any(isinstance(e, Apply) and isinstance(e.op, PositionOp) for e in walk(expr))


def joins_deep(expr: Expr) -> int:
    """How many operands lie within each other that are not the first of their op, or places."""
    if not isinstance(expr, Apply):
        return 0
    first, *others = map(joins_deep, expr.args)
    return max([first, int(isinstance(expr.op, PositionOp)), *(1 + depth for depth in others)])
