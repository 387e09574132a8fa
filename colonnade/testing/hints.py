"""What the columns of a program say of the values of its inputs, and of single places of the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field, fields_of, walk
from colonnade.ir.column import Column
from colonnade.ir.program import Program
from colonnade.ops.add_place import AddPlace
from colonnade.ops.add_position import AddPosition
from colonnade.ops.at_least import AtLeast
from colonnade.ops.cast import Cast
from colonnade.ops.graph.split_rows import SplitRows
from colonnade.ops.not_equal import NotEqual
from colonnade.ops.replace_outside import ReplaceOutside
from colonnade.ops.vocabulary import Vocabulary
from colonnade.ops.wrap_negative import WrapNegative
from colonnade.testing.models.feeds import Hints, Range

MISSING = -1


@dataclass
class _Said:
    """What some columns say of one field.

    ids, usual: ranges [low, high) of columns whose ids are checked, and of those whose ids are proven.
    dropped: values that a filter drops.   refused: for each column whose ids are checked, the values it drops.
    """

    boundaries: list[float] = field(default_factory=list)
    separator: bytes | None = None
    words: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    ids: list[Range] = field(default_factory=list)
    usual: list[Range] = field(default_factory=list)
    dropped: set[int | bytes] = field(default_factory=set)
    checked: list[set[int | bytes]] = field(default_factory=list)
    only_known: bool = False
    is_weight: bool = False

    def add(self, other: _Said) -> None:
        """Take in what other columns say."""
        for name in ("boundaries", "words", "numbers", "ids", "usual", "checked"):
            getattr(self, name).extend(getattr(other, name))
        self.separator = other.separator or self.separator
        self.dropped |= other.dropped
        self.only_known |= other.only_known
        self.is_weight |= other.is_weight

    @property
    def missing(self) -> int | bytes | None:
        """A value that every column drops that would refuse it."""
        found = self.dropped.intersection(*self.checked)
        return min(found, key=str) if found else None


def hints_from(program: Program) -> Hints:
    """What the columns say: where ids change, what splits strings, which ids exist, which words and numbers.

    Facts: of places of a matrix that some columns read apart, what those say who read them.
    """
    said = _by_field(program)
    roots = {name: _root(program, name) for name in said}
    found: dict[str, _Said] = {}
    parts: dict[str, dict[str, tuple[int, ...]]] = {}
    for root in dict.fromkeys(root for root, _ in roots.values()):
        found[root] = _merged(said[name] for name, (of, places) in roots.items() if of == root and places is None)
        readers = {name: places for name, (of, places) in roots.items() if of == root and places is not None}
        for names, places in _shared(readers).items():
            part = f"{root}[{', '.join(map(str, places))}]"
            parts.setdefault(root, {})[part] = places
            found[part] = _merged([found[root], *(said[name] for name in sorted(names))])
    return _hints(found, parts)


def _hints(said: dict[str, _Said], parts: dict[str, dict[str, tuple[int, ...]]]) -> Hints:
    return Hints(
        boundaries={name: tuple(sorted(set(s.boundaries))) for name, s in said.items() if s.boundaries},
        separators={name: s.separator for name, s in said.items() if s.separator},
        ids={name: common for name, s in said.items() if (common := _common(s.ids))},
        usual={name: common for name, s in said.items() if (common := _common(s.usual))},
        vocabulary={name: s.words for name, s in said.items() if s.words},
        numbers={name: s.numbers for name, s in said.items() if s.numbers},
        missing={name: missing for name, s in said.items() if (missing := s.missing) is not None},
        only_known=frozenset(name for name, s in said.items() if s.only_known),
        weights=frozenset(name for name, s in said.items() if s.is_weight),
        places=parts,
    )


def _common(ranges: list[Range]) -> Range | None:
    """What lies in all of them."""
    low, high = max((r[0] for r in ranges), default=0), min((r[1] for r in ranges), default=0)
    return (low, high) if low < high else None


def _merged(said: Iterable[_Said]) -> _Said:
    found = _Said()
    for each in said:
        found.add(each)
    return found


def _shared(readers: dict[str, tuple[int, ...]]) -> dict[frozenset[str], tuple[int, ...]]:
    """The places that the same fields have, by those."""
    found: dict[frozenset[str], tuple[int, ...]] = {}
    for place in sorted({p for places in readers.values() for p in places}):
        names = frozenset(name for name, places in readers.items() if place in places)
        found[names] = (*found.get(names, ()), place)
    return found


def _root(program: Program, name: str) -> tuple[str, tuple[int, ...] | None]:
    """The input whose values a field has, and which places of its rows, where not all."""
    pads = {p.name: p.of for p in program.pads}
    item = program.input(name)
    of = item.of or pads.get(name)
    if of is None:
        return name, None
    root, outer = _root(program, of)
    if item.places is None or outer is not None:
        return root, outer
    return root, tuple(range(*item.places))


def _by_field(program: Program) -> dict[str, _Said]:
    made: dict[str, _Said] = {}
    for column in program.columns:
        for op, name in _applied(column):
            _note(made.setdefault(name, _Said()), op, column.ids_proven)
        for name in fields_of(column.weights) if column.weights is not None else ():
            made.setdefault(name, _Said()).is_weight = True
        if column.table is None:
            continue
        for name in (n for n in fields_of(column.ids) if not program.input(n).numbered):
            said, dropped = made.setdefault(name, _Said()), set(_dropped(column, name))
            said.dropped |= dropped
            if not column.ids_proven:
                said.checked.append(dropped)
        reached = _reached(column.ids, 0, program.table(column.table).rows - 1)
        if reached is not None:
            name, low, high = reached
            (made[name].usual if column.ids_proven else made[name].ids).append((low, high + 1))
    for item in program.inputs:
        if item.name in made and isinstance(item.by, Apply) and isinstance(item.by.op, SplitRows):
            made[item.name].separator = item.by.op.separator
    return made


def _note(said: _Said, op: Any, proven: bool) -> None:
    for key, value in op.attributes():
        if key == "boundaries" and isinstance(value, Const):
            said.boundaries.extend(float(x) for x in value.array.reshape(-1))
        elif key == "separator" and value:
            said.separator = value
        elif isinstance(value, Const) and value.array.dtype == object:
            said.words.extend(value.array.reshape(-1))
    if isinstance(op, Vocabulary):
        said.only_known |= not proven
        if op.keys.array.dtype == np.int64:
            said.numbers.extend(op.keys.array.tolist())


def _applied(column: Column) -> Iterator[tuple[Any, str]]:
    """Every op of a column with the first field it reads."""
    for expr in (column.ids, *column.filters):
        for node in walk(expr):
            if isinstance(node, Apply) and fields_of(node):
                yield node.op, fields_of(node)[0]


def _reached(ids: Expr, low: int, high: int) -> tuple[str, int, int] | None:
    """The field that is the id itself, but for moves, with its least and greatest value for which ids lie between."""
    expr = ids
    while isinstance(expr, Apply):
        op = expr.op
        if isinstance(op, WrapNegative):
            low = low - op.size if high >= op.size - 1 else low
        elif isinstance(op, AddPosition | AddPlace):
            farthest = op.stride * (op.width - 1)
            low, high = low - min(farthest, 0), high - max(farthest, 0)
        elif isinstance(op, ReplaceOutside):
            low, high = max(low, op.lo), min(high, op.hi)
        elif not isinstance(op, Cast):
            return None
        expr = expr.args[0]
    return (expr.name, low, high) if isinstance(expr, Field) and low <= high else None


def _dropped(column: Column, name: str) -> Iterator[int | bytes]:
    """Values of a field that a filter drops."""
    for predicate in column.filters:
        if isinstance(predicate, Apply) and predicate.args[0] == Field(name):
            if isinstance(predicate.op, NotEqual):
                yield predicate.op.value
            elif isinstance(predicate.op, AtLeast) and predicate.op.bound > MISSING:
                yield MISSING
