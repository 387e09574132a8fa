"""Which values lie in one storage: a write in place reaches all of them, and must not hang on the batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from colonnade.backends.gpu.rows.names import MAYBE_VIEWS, VIEWS
from colonnade.backends.gpu.rows.values import Unproven, Value
from colonnade.ir.program import ITEM, PLACE, Instruction, Ref

Span: TypeAlias = tuple[int, int] | None
"""Columns of a matrix; None is all of it."""


@dataclass
class Aliases:
    """Where each value lies, and where one lies that may be a copy as well: torch decides that by strides, which
    differ for a batch of 1.
    """

    places: dict[str, tuple[str, Span]] = field(default_factory=dict)
    unsure: list[tuple[str, Span]] = field(default_factory=list)

    def step(self, line: Instruction, arguments: Mapping[str, Any]) -> None:
        """Note what an instruction makes. Errors: Unproven where it writes what may or may not be another value's."""
        writes = line.op == PLACE or line.op.split(".")[1].endswith("_")
        if not writes and line.op not in (*VIEWS, *MAYBE_VIEWS, ITEM):
            return
        target = dict(enumerate(line.args)).get(1 if line.op == PLACE else 0)
        if not isinstance(target, Ref):
            raise Unproven("the operand it lies in is no positional argument")
        home, span = self.places.get(target.name, (target.name, None))
        if writes:
            self._write(home, _placed(arguments) if line.op == PLACE and span is None else span)
        self.places[line.output] = (home, _cut(line.op, arguments) if span is None else span)
        if line.op in MAYBE_VIEWS:
            self.unsure.append(self.places[line.output])

    def _write(self, home: str, span: Span) -> None:
        if any(home == other and _meet(span, columns) for other, columns in self.unsure):
            raise Unproven(f"writes in place where {home!r} lies, of which a value may be a copy or not")


def _placed(arguments: Mapping[str, Any]) -> Span:
    offset, width = arguments["offset"], arguments["x"].shape[1]
    return (offset, offset + width) if isinstance(offset, int) and isinstance(width, int) and offset >= 0 else None


def _cut(op: str, arguments: Mapping[str, Any]) -> Span:
    """The columns that a slice of a whole matrix takes."""
    if op != "aten.slice.Tensor" or arguments["dim"] != 1:
        return None
    x, start, end = arguments["self"], arguments["start"] or 0, arguments["end"]
    whole = isinstance(x, Value) and x.rank == 2
    known = whole and isinstance(start, int) and isinstance(end, int) and 0 <= start <= end
    return (start, end) if known else None


def _meet(a: Span, b: Span) -> bool:
    return a is None or b is None or (a[0] < b[1] and b[0] < a[1])
