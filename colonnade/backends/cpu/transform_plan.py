"""From the expressions of features to the nodes that `transform.py` runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.cpu import transform as t
from colonnade.backends.cpu.tiles.registry import JOINED, Memory, Step, encode, lower
from colonnade.core.expr import Apply, Expr, Field, walk
from colonnade.errors import GraphError
from colonnade.ops.combine import Combine
from colonnade.ops.cross import Cross
from colonnade.ops.keep import Keep
from colonnade.ops.op import FilterOp, RaggedOp
from colonnade.ops.split import Split
from colonnade.ops.truncate import Truncate
from colonnade.ops.weigh import Weigh

Words = npt.NDArray[np.int64]

ITEMS = {"float32": 4, "float64": 8, "int32": 8, "int64": 8, "string": 16}
"""Bytes of an element as tiles read it."""
LOADS = {"int32": t.LOAD_INT32, "string": t.LOAD_STRING, "bool": t.LOAD_BOOL}


@dataclass(frozen=True)
class Wanted:
    """An expression, and the arena its elements go to: `t.IDS`, `t.DENSE`, or `t.TEMP`."""

    expr: Expr
    arena: int


@dataclass(frozen=True)
class Plan:
    """The words of all nodes, and what their values are numbered.

    fields: names, the first values.   results: the value of each expression wanted.
    rows_of, weights_of: of each value the field whose offsets, and weights, it has; None: its own.
    """

    nodes: Words
    num_values: int
    fields: tuple[str, ...]
    results: tuple[int, ...]
    rows_of: tuple[str | None, ...]
    weights_of: tuple[str | None, ...]
    memory: Memory


def make_plan(
    wanted: Sequence[Wanted], fields: Mapping[str, str], dtype_of: Callable[[Expr], str], tiles: Mapping[str, int]
) -> Plan:
    """The plan of expressions, in their order. fields: dtypes by name, as a batch holds them.

    Facts: what several expressions share is computed once; the elements of IDS and DENSE lie in the order of `wanted`.
    """
    builder = _Builder(wanted, fields, dtype_of, tiles)
    results = tuple(builder.wanted(w) for w in wanted)
    nodes = np.array(builder.nodes, np.int64).reshape(-1, t.NODE_BYTES // 8)
    kept = builder.memory.copy(nodes) if len(nodes) else nodes
    names = tuple(fields)
    return Plan(
        kept, len(builder.rows_of), names, results, tuple(builder.rows_of), tuple(builder.weights_of), builder.memory
    )


@dataclass(frozen=True)
class _Chain:
    """Steps on a value. item: bytes of an element that lies as tiles read it."""

    source: int
    item: int
    steps: tuple[Step, ...]


class _Builder:
    def __init__(
        self,
        wanted: Sequence[Wanted],
        fields: Mapping[str, str],
        dtype_of: Callable[[Expr], str],
        tiles: Mapping[str, int],
    ) -> None:
        self.fields = dict(fields)
        self.dtype_of = dtype_of
        self.tiles = tiles
        self.memory = Memory()
        self.nodes: list[list[int]] = []
        self.rows_of: list[str | None] = list(fields)
        self.weights_of: list[str | None] = list(fields)
        self.values: dict[Expr, int] = {Field(name): k for k, name in enumerate(fields)}
        self.plain_fields: dict[int, int] = {}
        self.shared = _shared([w.expr for w in wanted])

    # --- values -----------------------------------------------------------------------------------------------------
    def wanted(self, wanted: Wanted) -> int:
        """The number of a value of its own in its arena."""
        expr = wanted.expr
        is_alias = isinstance(expr, Apply) and isinstance(expr.op, Weigh)
        if expr in self.values or is_alias:
            return self.copy(self.value(expr), self.dtype_of(expr), wanted.arena)
        made = self.values[expr] = self.made(expr, wanted.arena)
        return made

    def value(self, expr: Expr) -> int:
        """The number of an expression's value."""
        found = self.values.get(expr)
        if found is None:
            found = self.values[expr] = self.made(expr, t.TEMP)
        return found

    def plain(self, expr: Expr) -> int:
        """The same, with elements that lie as tiles read them."""
        number = self.value(expr)
        if not isinstance(expr, Field) or self.fields[expr.name] not in LOADS:
            return number
        if number not in self.plain_fields:
            self.plain_fields[number] = self.copy(number, self.dtype_of(expr), t.TEMP)
        return self.plain_fields[number]

    def copy(self, number: int, dtype: str, arena: int) -> int:
        """A value with the elements of another."""
        return self.mapped(_Chain(number, ITEMS[dtype], ()), ITEMS[dtype], arena)

    def made(self, expr: Expr, arena: int) -> int:
        """The number of a new value."""
        assert isinstance(expr, Apply)
        if isinstance(expr.op, RaggedOp):
            return self.whole_rows(expr, arena)
        if isinstance(expr.op, Split):
            separator = np.frombuffer(expr.op.separator, np.uint8)
            words = {t.ARG: self.plain(expr.args[0]), t.P0: self.memory.add(separator), t.P1: len(separator)}
            return self.node(t.SPLIT, expr, arena, words)
        return self.mapped(self.chain(expr), ITEMS[self.dtype_of(expr)], arena)

    def mapped(self, chain: _Chain, item: int, arena: int) -> int:
        """The node of a chain: the rows and weights of its source."""
        words = {t.ARG: chain.source, t.ARG_ITEM: chain.item, **self.steps(chain)}
        return self.add(t.MAP, item, arena, words, self.rows_of[chain.source], self.weights_of[chain.source])

    def chain(self, expr: Expr) -> _Chain:
        """The steps that an expression ends in, down to a field, whole rows, or what others share."""
        assert isinstance(expr, Apply)
        first, *others = expr.args
        below = self.chain(first) if self.fuses(first) else self.source(first)
        joins = [Step(JOINED, (number, ITEMS["int64"])) for number in map(self.value, others)]
        if len(joins) > 1 or (joins and any(self.dtype_of(a) not in ("int32", "int64") for a in expr.args)):
            raise GraphError("the cpu backend joins one chain of integers to another", got=repr(expr))
        made = lower(expr.op, self.dtype_of(first), self.memory)
        return _Chain(below.source, below.item, (*below.steps, *joins, *made))

    def fuses(self, expr: Expr) -> bool:
        """Whether an expression is computed within the chain of its user."""
        if not isinstance(expr, Apply) or expr in self.values or expr in self.shared:
            return False
        return not isinstance(expr.op, RaggedOp | Split)

    def source(self, expr: Expr) -> _Chain:
        return _Chain(self.value(expr), ITEMS[self.dtype_of(expr)], ())

    # --- whole rows -------------------------------------------------------------------------------------------------
    def whole_rows(self, expr: Apply, arena: int) -> int:
        op = expr.op
        if isinstance(op, Keep | Weigh):
            return self.looked_at(expr, arena)
        numbers = [self.plain(a) for a in expr.args]
        if isinstance(op, Truncate):
            fill = self.memory.add(self.fill(op, self.dtype_of(expr)))
            words = {t.P0: op.length, t.P1: int(op.side == "last"), t.P2: int(op.padded), t.P3: fill}
            return self.node(t.TRUNCATE, expr, arena, {t.ARG: numbers[0], **words})
        if not isinstance(op, Cross | Combine):
            raise GraphError("the cpu backend has no transform of this op", got=op.name)
        kind = t.CROSS if isinstance(op, Cross) else t.COMBINE
        words = {t.ARG: numbers[0], t.ARGS: self.memory.add(np.array(numbers, np.int64)), t.NUM_ARGS: len(numbers)}
        return self.node(kind, expr, arena, words)

    def looked_at(self, expr: Apply, arena: int) -> int:
        """The node of an op with a predicate, or a factor, on elements beside its own."""
        x, other = expr.args
        number = self.plain(x)
        below = self.chain(other) if self.is_chain(other) else self.source(other)
        words = {t.ARG: number, t.OTHER: below.source, t.OTHER_ITEM: below.item, **self.steps(below)}
        if isinstance(expr.op, Keep):
            return self.node(t.KEEP, expr, arena, words)
        words[t.P0] = int(isinstance(other, Apply) and isinstance(other.op, FilterOp))
        item = ITEMS[self.dtype_of(x)]
        return self.add(t.WEIGH, item, t.TEMP, words, self.rows_of[number], None)

    def is_chain(self, expr: Expr) -> bool:
        """Whether an operand is computed where it is looked at: a predicate is, always."""
        return self.fuses(expr) or (isinstance(expr, Apply) and isinstance(expr.op, FilterOp))

    def fill(self, op: Truncate, dtype: str) -> npt.NDArray[Any]:
        """What rows are filled up with, as it lies in memory."""
        if not op.padded:
            return np.zeros(2, np.int64)
        if dtype == "string":
            assert isinstance(op.fill, bytes)
            return np.array([self.memory.add(np.frombuffer(op.fill, np.uint8)), len(op.fill)], np.int64)
        return np.array([op.fill, op.fill], np.int64 if dtype in ("int32", "int64") else dtype)

    # --- words ------------------------------------------------------------------------------------------------------
    def node(self, kind: int, expr: Expr, arena: int, words: Mapping[int, int]) -> int:
        """A node whose rows are its own."""
        return self.add(kind, ITEMS[self.dtype_of(expr)], arena, words, None, None)

    def add(
        self, kind: int, item: int, arena: int, words: Mapping[int, int], rows: str | None, weights: str | None
    ) -> int:
        """A node and its value."""
        number = len(self.rows_of)
        row = [0] * (t.NODE_BYTES // 8)
        for word, value in {t.KIND: kind, t.RESULT: number, t.ITEM: item, t.ARENA: arena, **words}.items():
            row[word // 8] = value
        self.nodes.append(row)
        self.rows_of.append(rows)
        self.weights_of.append(weights)
        return number

    def steps(self, chain: _Chain) -> dict[int, int]:
        """The words of a chain's steps."""
        return {t.STEPS: len(chain.steps), t.FIRST_STEP: encode(chain.steps, self.tiles, self.memory)}


def _shared(exprs: Sequence[Expr]) -> frozenset[Expr]:
    """What several others are made of."""
    users: Counter[Expr] = Counter()
    seen: set[Expr] = set()
    for expr in exprs:
        users[expr] += 1
        for node in walk(expr):
            if isinstance(node, Apply) and node not in seen:
                seen.add(node)
                users.update(set(node.args))
    return frozenset(e for e, n in users.items() if n > 1 and isinstance(e, Apply) and not isinstance(e.op, FilterOp))
