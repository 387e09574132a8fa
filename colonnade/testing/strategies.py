"""Random programs of columns, with weights and requests, for Hypothesis.

Hypothesis draws what decides structure (ops, poolings, filters, sizes) and one seed; numpy draws the values from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from colonnade import ops
from colonnade.core import dims, quantize
from colonnade.core.consts import Const
from colonnade.core.expr import Apply, Expr, Field
from colonnade.errors import ShapeError
from colonnade.ir.column import POOLINGS, Column, Slot
from colonnade.ir.program import Buffer, Input, Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.op import ColumnOp, ElementFacts, ExpandOp, FilterOp, PositionOp, RaggedOp

Array = npt.NDArray[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

FIELD_DTYPES = ("float32", "float64", "int32", "int64", "string")
OFFSETS = ("int32", "int64")
BATCH = dims.symbol("B")
BATCHES = (0, 1, 2, 3, 5, 17, 64, 65)
EMBEDDING_DIMS = (1, 2, 3, 5, 8, 16, 24, 33)
WIDTHS = (1, 1, 1, 2, 3, 9)
HASHES = ("farm", "murmur")
SEPARATORS = (b",", b";", b"||")
WORDS = (b"", b"a", b"bc", b"7", b"-1", b"hello, world", b"x" * 17, b"y" * 40, "é".encode(), b"\x00\xff", b"z" * 130)


@dataclass(frozen=True, repr=False)
class Case:
    """A program of columns only, its weights, and one request."""

    program: Program
    weights: Weights
    feed: Mapping[str, Array]
    rows: int

    def __repr__(self) -> str:
        return f"Case({self.rows} rows, {', '.join(map(repr, self.program.columns))})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def column_ops(draw: Draw, name: str) -> ColumnOp:
    """An op of that name with random attributes. Errors: LookupError for an op that none is known of."""
    if name not in _OPS:
        raise LookupError(f"no strategy for the column op {name!r}: add one to colonnade.testing.strategies")
    return _OPS[name](draw)


def known_ops() -> frozenset[str]:
    """The column ops that `column_ops` can draw."""
    return frozenset(_OPS)


def _boundaries(draw: Draw) -> Const:
    size = draw(st.sampled_from((0, 1, 2, 7, 15, 16, 17, 100, 255, 257, 1000)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return Const(np.sort(rng.choice(_floats(rng, max(size, 1)), size).astype(np.float32)))


def _vocabulary(draw: Draw, dtype: str) -> ColumnOp:
    size = draw(st.sampled_from((0, 1, 3, 9)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if dtype == "string":
        keys = np.array(WORDS, object)[rng.permutation(len(WORDS))[:size]]
    else:
        keys = rng.permutation(np.array([*range(-3, 30), 2**63 - 1, -(2**63)]))[:size]
    default = draw(st.sampled_from((-1, 0, size)))
    num_oov = 0 if default < 0 else draw(st.sampled_from((0, 1, 3)))
    function = draw(st.sampled_from(("farm",) if dtype == "string" else ("farm", "floor_mod")))
    named = {"default": default, "num_oov": num_oov, "function": function}
    return _op("vocabulary", keys=Const(keys), values=Const(np.arange(size)), **named)


def _truncate(draw: Draw) -> ColumnOp:
    named = {"side": draw(st.sampled_from(("first", "last"))), "padded": draw(st.booleans())}
    return _op(
        "truncate", length=draw(st.sampled_from((0, 1, 2, 5))), fill=draw(st.sampled_from((0, -1, b""))), **named
    )


def _op(name: str, **attributes: Any) -> ColumnOp:
    return ops.load()[name](**attributes)


def _keyed(draw: Draw, name: str) -> ColumnOp:
    keys = st.sampled_from((0, 1, -1, 0x0706050403020100, 2**63 - 1, -(2**63)))
    return _op(name, key0=draw(keys), key1=draw(keys))


def _is_plain(op: type[ColumnOp]) -> bool:
    """Whether it takes one element and gives one, whatever its place."""
    return op.arity == 1 and not issubclass(op, FilterOp | ExpandOp | PositionOp | RaggedOp)


_OPS: dict[str, Callable[[Draw], ColumnOp]] = {
    "bucketize": lambda draw: _op("bucketize", boundaries=_boundaries(draw), flush_denormals=draw(st.booleans())),
    "add_position": lambda draw: _op("add_position", stride=draw(st.integers(-9, 9)), width=draw(st.integers(1, 9))),
    "add_place": lambda draw: _op("add_place", stride=draw(st.integers(-9, 9)), width=draw(st.integers(1, 9))),
    "cast": lambda draw: _op("cast", to=draw(st.sampled_from(("int32", "int64", "float32", "float64")))),
    "mod": lambda draw: _op("mod", divisor=draw(st.one_of(st.integers(1, 300), st.sampled_from((2**31, 2**63 - 1))))),
    "join_hash": lambda draw: _op("join_hash"),
    "seed_hash": lambda draw: _op("seed_hash", seed=draw(st.sampled_from((0, -1, 0xDECAFCAFFE, 2**63 - 1)))),
    "vocabulary": lambda draw: _vocabulary(draw, draw(st.sampled_from(("string", "int64")))),
    "sip_bytes": lambda draw: _keyed(draw, "sip_bytes"),
    "sip_decimal": lambda draw: _keyed(draw, "sip_decimal"),
    "or_else": lambda draw: _op("or_else", added=draw(st.sampled_from((0, 1, 40, -1)))),
    "hash_bytes": lambda draw: _op("hash_bytes", function=draw(st.sampled_from(HASHES))),
    "hash_int": lambda draw: _op("hash_int", function=draw(st.sampled_from(HASHES))),
    "multi_hash": lambda draw: _op(
        "multi_hash", part=draw(st.integers(0, 3)), buckets=draw(st.sampled_from((1, 2, 300, 1 << 20, 1 << 31)))
    ),
    "log": lambda draw: _op("log"),
    "affine": lambda draw: _op(
        "affine", scale=draw(st.sampled_from((1.0, -0.5, 3.0, 1e30))), shift=draw(st.sampled_from((0.0, 0.125, -1e9)))
    ),
    "clip": lambda draw: _op(
        "clip", least=draw(st.sampled_from((-3, 0, -(2**31)))), most=draw(st.sampled_from((0, 7, 2**31 - 128)))
    ),
    "fill_missing": lambda draw: _op(
        "fill_missing", fill=draw(st.sampled_from((0, 3, -1))), missing=draw(st.sampled_from((None, -1, 0, 2**31 - 1)))
    ),
    "hash_decimal": lambda draw: _op("hash_decimal"),
    "replace_outside": lambda draw: _op(
        "replace_outside",
        lo=draw(st.sampled_from((0, -5, 3, -(2**70)))),
        hi=draw(st.sampled_from((9, 40, -7, 2**40, 2**70))),
        default=draw(st.sampled_from((0, 3, 11, -1))),
    ),
    "wrap_negative": lambda draw: _op("wrap_negative", size=draw(st.sampled_from((0, 1, 7, 40, 2**31 - 1)))),
    "keep": lambda draw: _op("keep"),
    "weigh": lambda draw: _op("weigh"),
    "cross": lambda draw: _op("cross"),
    "combine": lambda draw: _op("combine"),
    "truncate": lambda draw: _truncate(draw),
    "split": lambda draw: _op("split", separator=draw(st.sampled_from(SEPARATORS))),
    "at_least": lambda draw: _op("at_least", bound=draw(st.sampled_from((-5, -1, 0, 1, 3, -(2**31), 2**40)))),
    "at_most": lambda draw: _op("at_most", bound=draw(st.sampled_from((-1, 0, 5, 50, 2**31 - 1, 2**40)))),
    "greater": lambda draw: _op(
        "greater", bound=draw(st.sampled_from((0.0, -1.5, 3.0))), flush_denormals=draw(st.booleans())
    ),
    "not_equal": lambda draw: _op("not_equal", value=draw(st.sampled_from((b"", b"a", b"hello, world", -1, 0, 3, 7)))),
}


@st.composite
def cases(
    draw: Draw,
    *,
    max_columns: int = 5,
    batches: tuple[int, ...] = BATCHES,
    widths: tuple[int, ...] = WIDTHS,
    poolings: tuple[str, ...] = POOLINGS,
    ids_in_range: bool = False,
    ragged: bool = False,
    table_dtypes: tuple[str, ...] = ("float32",),
) -> Case:
    """A case; with `ids_in_range`, every column's ids are proven to lie in its table; with `ragged`, some columns read
    ragged fields; each table is of one of `table_dtypes`.
    """
    rows = draw(st.sampled_from(batches))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    offsets = _offsets(draw, rng, rows) if ragged else {}
    made = [
        _Maker(draw, rng, f"c{i}", poolings, ids_in_range, widths, tuple(offsets), table_dtypes).column()
        for i in range(draw(st.integers(1, max_columns)))
    ]
    inputs = tuple(i for m in made for i in m.fields.values())
    used = {i.offsets: offsets[i.offsets] for i in inputs if i.offsets is not None}
    ends = tuple(Input(name, str(o.dtype), (dims.add(BATCH, 1),)) for name, o in used.items())
    placed, buffers = _placed(draw, [(m.parts, m.width) for m in made])
    tables = tuple(m.table for m in made if m.table is not None)
    weights = Weights({t.name: _table_rows(rng, t) for t in tables}, {}, {})
    factors = {name: signed for m in made for name, signed in m.factors.items()}
    feed: dict[str, Array] = {**used}
    for i in inputs:
        shape = (rows, int(i.shape[1])) if i.offsets is None else (int(used[i.offsets][-1]),)
        is_factor = i.name in factors
        feed[i.name] = _factors(rng, i.dtype, shape, factors[i.name]) if is_factor else values_of(rng, i.dtype, shape)
    return Case(Program((*inputs, *ends), tables, placed, buffers, (), ()), weights, feed, rows)


def _offsets(draw: Draw, rng: np.random.Generator, rows: int) -> dict[str, Array]:
    """One or two inputs of offsets."""
    return {
        f"ends_{k}": np.cumsum([0, *draw(st.sampled_from(LENGTHS))(rng, rows)]).astype(draw(st.sampled_from(OFFSETS)))
        for k in range(draw(st.integers(1, 2)))
    }


def _skewed(rng: np.random.Generator, rows: int) -> Array:
    return np.minimum(rng.zipf(1.5, rows) - 1, 2000)


def _one_long(rng: np.random.Generator, rows: int) -> Array:
    return np.where(np.arange(rows) == rng.integers(max(rows, 1)), 3000, rng.integers(0, 3, rows))


LENGTHS: tuple[Callable[[np.random.Generator, int], Array], ...] = (
    lambda rng, rows: np.zeros(rows, np.int64),
    lambda rng, rows: np.ones(rows, np.int64),
    lambda rng, rows: rng.integers(0, 2, rows),
    lambda rng, rows: rng.integers(0, 40, rows),
    lambda rng, rows: rng.choice((0, 511, 512, 513), rows, p=(0.97, 0.01, 0.01, 0.01)),
    _skewed,
    _one_long,
)
"""Numbers of elements of ragged rows: none, one, few, many, about a tile of the engine, a power law, one huge row."""


@dataclass(frozen=True)
class _Made:
    parts: dict[str, Any]
    fields: dict[str, Input]
    factors: dict[str, bool]
    table: Table | None
    width: int


class _Maker:
    """Draws one column with fields and a table of its own."""

    def __init__(
        self,
        draw: Draw,
        rng: np.random.Generator,
        name: str,
        poolings: tuple[str, ...],
        proven: bool,
        widths: tuple[int, ...],
        offsets: tuple[str, ...],
        table_dtypes: tuple[str, ...],
    ) -> None:
        self.draw = draw
        self.rng = rng
        self.name = name
        self.poolings = poolings
        self.proven = proven
        self.width = draw(st.sampled_from(widths))
        self.offsets = draw(st.sampled_from((None, *offsets * 2))) if offsets else None
        self.table_dtypes = table_dtypes
        self.fields: dict[str, Input] = {}
        self.factors: dict[str, bool] = {}

    def column(self) -> _Made:
        """A numeric column, or one with a table."""
        if self.offsets is None and self.draw(st.integers(0, 7)) == 0:
            start = self._field(FIELD_DTYPES[:4])
            expr, _ = self._mapped(start, self.draw(st.integers(0, 1)), numeric=True)
            some = self.draw(st.integers(0, 2)) == 0
            filters = tuple(self._filter(s) for s in self._filtered(start, start)) if some else ()
            parts = {"ids": expr, "table": None, "pooling": "none", "filters": filters}
            return _Made(parts, self.fields, {}, None, self.width)
        return self._lookup()

    def _lookup(self) -> _Made:
        draw = self.draw
        start = self._field(FIELD_DTYPES)
        poolings = [p for p in self.poolings if self.offsets is None or p != "none"]
        source, pooling = start, draw(st.sampled_from(poolings))
        if start[1].dtype == "string" and pooling not in ("none", "marks") and draw(st.booleans()):
            source = self._applied(start, _OPS["split"](draw))
        mapped = self._mapped(source, draw(st.integers(0, 2)))
        if source is start and len(self.fields) < 2 and draw(st.integers(0, 5)) == 0:
            mapped = self._crossed(mapped, self._mapped(self._field(FIELD_DTYPES), draw(st.integers(0, 1))))
        ids, facts = self._placed(self._bounded(mapped), source is start)
        rows = (facts.hi or 0) + 1 if facts.hi is not None else draw(st.integers(1, 40))
        is_proven = facts.hi is not None and facts.lo is not None and facts.lo >= 0
        if not self.proven and draw(st.booleans()):
            rows, is_proven = max(1, rows - draw(st.integers(0, 3))), False
        dim, dtype = draw(st.sampled_from(EMBEDDING_DIMS)), draw(st.sampled_from(self.table_dtypes))
        table = Table(f"t_{self.name}", rows, dim, dtype)
        weights = None
        if pooling == "marks" or draw(st.integers(0, 3)) == 0:
            weights = self._weights(signed=pooling not in ("mean", "sqrtn"))
        parts = {
            "ids": ids,
            "table": table.name,
            "pooling": pooling,
            "filters": tuple(self._filter(s) for s in self._filtered(start, source)),
            "weights": weights,
            "default_row": draw(st.one_of(st.none(), st.integers(0, rows - 1))),
            "ids_proven": is_proven and draw(st.booleans()),
        }
        width = table.embedding_dim * (self.width if pooling == "none" else 1)
        return _Made(parts, self.fields, self.factors, table, width)

    def _field(self, dtypes: tuple[str, ...]) -> tuple[Expr, ElementFacts]:
        name = f"{self.name}_{'xyzuvw'[len(self.fields)]}"
        dtype = self.draw(st.sampled_from(dtypes))
        shape = (BATCH, self.width) if self.offsets is None else (dims.symbol(f"N_{self.offsets}"),)
        self.fields[name] = Input(name, dtype, shape, offsets=self.offsets)
        return Field(name), ElementFacts(dtype)

    def _applied(self, x: tuple[Expr, ElementFacts], op: ColumnOp) -> tuple[Expr, ElementFacts]:
        return Apply(op, x[0]), op.infer(x[1])

    def _mapped(self, x: tuple[Expr, ElementFacts], count: int, numeric: bool = False) -> tuple[Expr, ElementFacts]:
        """The value after up to `count` random map ops that take it."""
        for _ in range(count):
            names = [n for n in sorted(_OPS) if _is_plain(ops.load()[n])]
            op = _OPS[self.draw(st.sampled_from(names))](self.draw)
            try:
                x = self._applied(x, op)
            except ShapeError:
                continue
        return x

    def _bounded(self, x: tuple[Expr, ElementFacts]) -> tuple[Expr, ElementFacts]:
        """Integers; small ones unless the draw leaves them open."""
        if x[1].dtype == "string":
            x = self._applied(x, _op("hash_bytes"))
        if x[1].dtype.startswith("float"):
            x = self._applied(x, _OPS["bucketize"](self.draw))
        is_small = x[1].hi is not None and x[1].hi < 2000 and x[1].lo is not None and x[1].lo >= 0
        if is_small or (not self.proven and self.draw(st.integers(0, 3)) == 0):
            return x if is_small else (x[0], ElementFacts(x[1].dtype))
        if x[1].dtype != "int64":
            x = self._applied(x, _op("cast", to="int64"))
        return self._applied(x, _op("mod", divisor=self.draw(st.integers(1, 300))))

    def _crossed(self, *operands: tuple[Expr, ElementFacts]) -> tuple[Expr, ElementFacts]:
        """The hash of two fields' elements, or one of them, or one moved by the other; the second may be so itself."""
        first, second = (self._word(x) for x in operands)
        if self.draw(st.integers(0, 2)) == 0:
            second = self._joined(second, first)
        return self._joined(first, second)

    def _joined(self, a: tuple[Expr, ElementFacts], b: tuple[Expr, ElementFacts]) -> tuple[Expr, ElementFacts]:
        op = _OPS[self.draw(st.sampled_from(("join_hash", "or_else", "add_place")))](self.draw)
        try:
            return Apply(op, a[0], b[0]), op.infer(a[1], b[1])
        except ShapeError:
            return Apply(_op("join_hash"), a[0], b[0]), _op("join_hash").infer(a[1], b[1])

    def _word(self, x: tuple[Expr, ElementFacts]) -> tuple[Expr, ElementFacts]:
        if x[1].dtype == "string":
            return self._applied(x, _op("hash_bytes"))
        if x[1].dtype.startswith("float"):
            x = self._applied(x, _OPS["bucketize"](self.draw))
        return x if x[1].dtype == "int64" else self._applied(x, _op("cast", to="int64"))

    def _placed(self, x: tuple[Expr, ElementFacts], is_element: bool) -> tuple[Expr, ElementFacts]:
        """Sometimes with the place in the row added, where elements have one."""
        if x[1].hi is None or not is_element or self.offsets is not None or self.draw(st.integers(0, 3)):
            return x
        strides = (0, 1, 7) if self.proven else (0, 1, 7, -1)
        return self._applied(x, _op("add_position", stride=self.draw(st.sampled_from(strides)), width=self.width))

    def _weights(self, signed: bool) -> Expr:
        expr, facts = self._field(FIELD_DTYPES[:4])
        self.factors[expr.key[0]] = signed
        return expr if facts.dtype in ("float32", "float64") else Apply(_op("cast", to="float32"), expr)

    def _filtered(
        self, start: tuple[Expr, ElementFacts], source: tuple[Expr, ElementFacts]
    ) -> list[tuple[Expr, ElementFacts]]:
        """What filters look at: the field, its tokens, another field."""
        choices = [start, source, self._field(FIELD_DTYPES)] if self.draw(st.booleans()) else []
        return [c for c in choices if self.draw(st.booleans())]

    def _filter(self, x: tuple[Expr, ElementFacts]) -> Expr:
        if x[1].dtype == "string" and self.draw(st.booleans()):
            return Apply(_op("not_equal", value=self.draw(st.sampled_from(WORDS))), x[0])
        if x[1].dtype == "string":
            x = self._applied(x, _op("hash_bytes"))
        if x[1].dtype.startswith("float"):
            x = self._applied(x, _OPS["bucketize"](self.draw))
        names = [n for n in sorted(_OPS) if issubclass(ops.load()[n], FilterOp)]
        while True:
            op = _OPS[self.draw(st.sampled_from(names))](self.draw)
            try:
                return self._applied(x, op)[0]
            except ShapeError:
                continue


def _placed(draw: Draw, made: list[tuple[dict[str, Any], int]]) -> tuple[tuple[Column, ...], tuple[Buffer, ...]]:
    """The columns with slots, some with two, with gaps between them, in one or two buffers."""
    ends = {"out": 0, "wide": 0}
    columns = []
    for i, (parts, width) in enumerate(made):
        slots = []
        for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
            output = draw(st.sampled_from(("out", "out", "wide")))
            offset = ends[output] + draw(st.sampled_from((0, 0, 1, 3)))
            slots.append(Slot(output, offset, width))
            ends[output] = offset + width
        columns.append(Column(f"c{i}", slots=tuple(slots), **parts))
    return tuple(columns), tuple(Buffer(name, BATCH, end + 1) for name, end in ends.items())


def _table_rows(rng: np.random.Generator, table: Table) -> Array:
    """Normal values, some signed zeros and huge ones, stored in the table's type; every second table is an unaligned
    view, all are read-only.
    """
    shape = (table.rows, table.embedding_dim)
    values = rng.standard_normal(shape).astype(np.float32)
    values[rng.random(shape) < 0.05] = -0.0
    values[rng.random(shape) < 0.02] = 6e4 if table.dtype == quantize.FLOAT16 else 3e20
    if table.dtype != "float32":
        values = quantize.store(values, table.dtype).array
    if rng.integers(2):
        raw = np.zeros(values.nbytes + 1, np.uint8)
        raw[1:] = values.reshape(-1).view(np.uint8)
        values = raw[1:].view(values.dtype).reshape(values.shape)
    values.flags.writeable = False
    return values


def values_of(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Values of a dtype, extremes and what is no number among them; strings as an object array of bytes."""
    size = math.prod(shape)
    if dtype == "string":
        out: Array = np.empty(size, dtype=object)
        out[:] = [_text(rng) for _ in range(size)]
        return out.reshape(shape)
    if dtype.startswith("float"):
        return with_non_numbers(rng, _floats(rng, size).astype(dtype)).reshape(shape)
    small = rng.integers(-3, 60, size)
    extreme = rng.choice(np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, -1, 0], dtype), size)
    return np.where(rng.random(size) < 0.1, extreme, small).astype(dtype).reshape(shape)


def _factors(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], signed: bool) -> Array:
    """Weights: a fifth are 0; those of a mean are not negative, so that no divisor is all cancellation."""
    values = rng.standard_normal(shape) if dtype.startswith("float") else rng.integers(-4, 5, shape)
    values = np.where(rng.random(shape) < 0.2, 0, values)
    return (values if signed else np.abs(values)).astype(dtype)


def _floats(rng: np.random.Generator, size: int) -> Array:
    """Normal float32 values, a tenth of them corners; many are equal to one another."""
    values = np.round(rng.standard_normal(size) * 4, rng.integers(1, 6)).astype(np.float32)
    corners = np.array([0.0, -0.0, 1e-40, -1e-45, 3.4e38, -3.4e38, 0.5, 2**31, -(2.0**63), 1e19], np.float32)
    return np.where(rng.random(size) < 0.1, rng.choice(corners, size), values)


def with_non_numbers(rng: np.random.Generator, values: Array) -> Array:
    """The floats with some NaN and infinities among them."""
    odd = rng.choice(np.array([np.nan, np.inf, -np.inf], values.dtype), values.shape)
    return np.where(rng.random(values.shape) < 0.1, odd, values).astype(values.dtype)


def _text(rng: np.random.Generator) -> bytes:
    """A word, or several between separators."""
    words = [WORDS[i] for i in rng.integers(0, len(WORDS), rng.choice((0, 1, 1, 2, 3, 12)))]
    return SEPARATORS[rng.integers(len(SEPARATORS))].join(words)
