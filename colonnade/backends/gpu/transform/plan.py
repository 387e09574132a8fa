"""What the transform of some features computes, in which order.

A *value* has rows of its own: a field, or a *node*, the result of an op on whole rows (`keep`, `truncate`, `cross`,
`combine`, `split`). Every other op works on the elements of a value, and is computed where its result is used: the
*root* of an expression is the value whose elements it has. A node that others read is *filled*: its elements lie in
memory; any other is computed within the features that are made of it.

The nodes of one *level* read fields and filled nodes of levels before. A level takes two launches: `scan` says where
every row begins, `fill` computes elements that others read. The last launch, `write`, computes all features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from colonnade.backends.gpu.emit import EMITTERS
from colonnade.core.expr import Apply, Expr, Field, walk
from colonnade.errors import FeatureError, listed
from colonnade.ops.op import ElementFacts, RaggedOp
from colonnade.ops.split import Split
from colonnade.ops.truncate import Truncate

IDS, DENSE, FLOAT32, FLOAT64 = "ids", "dense", "float32", "float64"
"""What a feature gives: ids among those of all features, float32 rows of one width, or floats of its own."""
INTEGERS = ("int32", "int64")
NODES = ("keep", "truncate", "cross", "combine", "split")


@dataclass(frozen=True)
class Traits:
    """What is known of an expression. levels: of offsets.   width: elements of every row, where all have as many."""

    elements: ElementFacts
    levels: int
    width: int | None
    weighted: bool

    @property
    def dtype(self) -> str:
        """Of the elements."""
        return self.elements.dtype


@dataclass(frozen=True)
class Output:
    """A feature. kind: what it gives.   own_weights: whether its weights are computed, not those of a field."""

    name: str
    expr: Expr
    kind: str
    own_weights: bool


@dataclass(frozen=True)
class Pair:
    """Two values that must have the same number of elements in every row, and list."""

    first: Expr
    other: Expr


@dataclass(frozen=True)
class Plan:
    """Fields, nodes in an order in which they can be computed, and outputs. Values are numbered: fields, then nodes.

    dtypes: of fields, as a batch holds them.   levels: of nodes, from 1 on.
    """

    fields: tuple[Field, ...]
    nodes: tuple[Apply, ...]
    levels: dict[Expr, int]
    filled: frozenset[Expr]
    outputs: tuple[Output, ...]
    pairs: tuple[Pair, ...]
    dtypes: dict[str, str]
    traits: Callable[[Expr], Traits]

    @property
    def values(self) -> tuple[Expr, ...]:
        """Fields, then nodes."""
        return (*self.fields, *self.nodes)

    @property
    def depth(self) -> int:
        """The number of levels."""
        return max(self.levels.values(), default=0)

    def at_level(self, level: int) -> tuple[Apply, ...]:
        """The nodes of a level."""
        return tuple(n for n in self.nodes if self.levels[n] == level)


def is_node(expr: Expr) -> bool:
    """Whether an expression has rows that no operand of it has."""
    return isinstance(expr, Apply) and expr.op.name in NODES


def root_of(expr: Expr) -> Expr:
    """The value whose elements an expression has."""
    while isinstance(expr, Apply) and not is_node(expr):
        expr = expr.args[0]
    return expr


def rows_of(expr: Expr) -> Expr:
    """The value whose lists a value has: `keep` and `split` leave the lists of their operand."""
    while isinstance(expr, Apply) and expr.op.name in ("keep", "split"):
        expr = root_of(expr.args[0])
    return expr


def within(expr: Expr) -> Iterator[Expr]:
    """An expression and all that it is made of, down to fields and nodes."""
    yield expr
    if isinstance(expr, Apply) and not is_node(expr):
        for arg in expr.args:
            yield from within(arg)


def make_plan(outputs: Sequence[Output], dtypes: dict[str, str], traits: Callable[[Expr], Traits]) -> Plan:
    """The plan of features. dtypes: of fields, by name. Errors: FeatureError that lists all that cannot run there."""
    wrong = [f"feature {o.name!r}: {fault}" for o in outputs for fault in _faults(o, traits)]
    if wrong:
        raise FeatureError(
            f"{len(wrong)} features cannot be transformed on the gpu",
            got=listed(wrong),
            help="transform them on the cpu, by FusedTransform",
        )
    roots = [o.expr for o in outputs]
    everything = list(dict.fromkeys(e for root in roots for e in walk(root)))
    filled = frozenset(_filled(roots, everything))
    levels: dict[Expr, int] = {}
    for expr in everything:  # operands before users
        if is_node(expr):
            assert isinstance(expr, Apply)
            read = [e for arg in expr.args for e in within(arg) if is_node(e)]
            levels[expr] = 1 + max((levels[e] for e in read), default=0)
    nodes = sorted((e for e in everything if is_node(e)), key=lambda e: levels[e])
    fields = tuple(Field(name) for name in dtypes)
    pairs = tuple(dict.fromkeys(_pairs(everything, traits)))
    return Plan(fields, tuple(nodes), levels, filled, tuple(outputs), pairs, dtypes, traits)  # type: ignore[arg-type]


def _faults(output: Output, traits: Callable[[Expr], Traits]) -> Iterator[str]:
    if traits(output.expr).dtype == "string":
        yield "its elements are strings, which stay on the host: hash them, or look them up"
    for expr in walk(output.expr):
        if not isinstance(expr, Apply):
            continue
        if not isinstance(expr.op, RaggedOp | Split) and type(expr.op) not in EMITTERS:
            yield f"the gpu has no {expr.op.name}"
        if is_node(expr) and traits(expr).dtype == "bool":
            yield f"{expr.op.name} of a predicate"


def _filled(roots: Sequence[Expr], everything: Sequence[Expr]) -> Iterator[Expr]:
    """The nodes that others read, or whose elements join those of another value."""
    for expr in everything:
        if is_node(expr):
            assert isinstance(expr, Apply)
            yield from (e for arg in expr.args for e in within(arg) if is_node(e))
    for expr in roots:
        yield from (e for e in within(expr) if is_node(e) and e is not root_of(expr))


def _pairs(everything: Sequence[Expr], traits: Callable[[Expr], Traits]) -> Iterator[Pair]:
    for expr in everything:
        if not isinstance(expr, Apply) or len(expr.args) < 2 or expr.op.name in ("cross", "combine"):
            continue
        first = root_of(expr.args[0])
        for arg in expr.args[1:]:
            other = root_of(arg)
            both = {traits(first).width, traits(other).width}
            if other is not first and (len(both) > 1 or None in both or is_node(first) or is_node(other)):
                yield Pair(first, other)


def lists_truncated(expr: Expr, traits: Callable[[Expr], Traits]) -> bool:
    """Whether a node cuts rows of lists."""
    return isinstance(expr, Apply) and isinstance(expr.op, Truncate) and traits(expr).levels == 2
