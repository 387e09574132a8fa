"""Which elements of a value's rows are zero in most rows: marks of ids, and what is made of them.

Facts: this decides only how a product is computed. A product that skips zeros skips them one by one, so that values
which turn out not to be zero count as they should.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.ir.column import Column, fields_read
from colonnade.ir.program import PLACE, Program, Ref

Ranges = tuple[tuple[int, int], ...]
"""(begin, end) of each, in order."""
Rows = npt.NDArray[Any]
"""Of a table."""

LEAST_WIDTH = 8
"""Of a range: fewer elements are multiplied sooner than they are looked at."""
MOST_NUMBERS = 1 << 20
"""Of a table that is looked through."""
SHARE = 4
"""How many times more elements than ids a slot has at least."""
_KEPT = {f"aten.{name}.default" for name in ("relu", "relu_", "neg", "abs", "sqrt", "round")}
"""Zero where their operand is."""


def mostly_zero(program: Program, tables: Mapping[str, Rows]) -> dict[str, Ranges]:
    """The ranges of each value of the dense rest that has any, by its name."""
    found: dict[str, Ranges] = {}
    for buffer in program.buffers:
        slots = [
            s for c in program.columns if _is_marks(c, program, tables) for s in c.slots if s.output == buffer.name
        ]
        _note(found, buffer.name, [(s.offset, s.offset + s.width) for s in slots])
    for line in program.dense:
        rule = _RULES.get(line.op)
        if rule is not None:
            _note(found, line.output, rule(line.args, found))
    return found


def _note(found: dict[str, Ranges], name: str, ranges: Sequence[tuple[int, int]]) -> None:
    """Facts: what is placed over a range of marks hides it, so that ranges which overlap say nothing."""
    kept = tuple(sorted((b, e) for b, e in ranges if e - b >= LEAST_WIDTH))
    if kept and all(end <= begin for (_, end), (begin, _) in pairwise(kept)):
        found[name] = kept


def _is_marks(column: Column, program: Program, tables: Mapping[str, Rows]) -> bool:
    """Whether the rows of a column's table have at most one element that is not zero, and its rows few ids."""
    if column.table is None or program.table(column.table).dtype != "float32":
        return False
    rows = tables[column.table]
    width = rows.shape[1]
    if width < LEAST_WIDTH or rows.size > MOST_NUMBERS or _elements(column, program) * SHARE > width:
        return False
    return bool((np.count_nonzero(rows, axis=1) <= 1).all())


def _elements(column: Column, program: Program) -> int:
    """Elements a batch row, of a ragged field one."""
    most = 1
    for name in fields_read(column):
        item = program.input(name)
        widths = [d for d in item.shape[1:] if isinstance(d, int)] if item.offsets is None else []
        most = max([most, *widths])
    return most


def _zeros_of(arg: Any, found: Mapping[str, Ranges]) -> Ranges:
    return found.get(arg.name, ()) if isinstance(arg, Ref) else ()


def _first(args: Sequence[Any], found: Mapping[str, Ranges]) -> Sequence[tuple[int, int]]:
    return _zeros_of(args[0], found)


def _either(args: Sequence[Any], found: Mapping[str, Ranges]) -> Sequence[tuple[int, int]]:
    return _zeros_of(args[0], found) or _zeros_of(args[1], found)


def _slice(args: Sequence[Any], found: Mapping[str, Ranges]) -> Sequence[tuple[int, int]]:
    if len(args) != 4 or args[1] not in (1, -1) or not all(isinstance(a, int) and a >= 0 for a in args[2:]):
        return ()
    _, _, begin, end = args
    return [(max(b, begin) - begin, min(e, end) - begin) for b, e in _zeros_of(args[0], found)]


def _place(args: Sequence[Any], found: Mapping[str, Ranges]) -> Sequence[tuple[int, int]]:
    x, buffer, offset = args
    return [*_zeros_of(buffer, found), *((b + offset, e + offset) for b, e in _zeros_of(x, found))]


Rule = Callable[[Sequence[Any], Mapping[str, Ranges]], Sequence[tuple[int, int]]]
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_KEPT, _first),
    **{f"aten.{name}.default": _either for name in ("minimum", "maximum")},
    "aten.mul.Tensor": _either,
    "aten.slice.Tensor": _slice,
    PLACE: _place,
}


def complement(ranges: Ranges, width: int) -> Ranges:
    """What the ranges leave of `width` elements."""
    ends = [0, *(e for _, e in ranges)]
    begins = [*(b for b, _ in ranges), width]
    return tuple((b, e) for b, e in zip(ends, begins, strict=True) if b < e)
