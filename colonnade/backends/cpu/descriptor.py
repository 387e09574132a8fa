"""From columns to descriptors: the words that the engine reads."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.backends.cpu import scratch
from colonnade.backends.cpu import words as w
from colonnade.backends.cpu.context import Context
from colonnade.backends.cpu.tiles.registry import FILTERS, JOINED, Memory, Step, encode, lower
from colonnade.backends.lanes import LANES
from colonnade.core.batch import Layout
from colonnade.core.expr import Apply, Expr, Field
from colonnade.core.quantize import ALIGNMENT, BFLOAT16, FLOAT16, INT8_ROWWISE, TAIL, carrier
from colonnade.errors import GraphError, ShapeError
from colonnade.ir.column import Column
from colonnade.ir.program import Program, Weights
from colonnade.ir.table import Table
from colonnade.ops.cast import Cast
from colonnade.ops.op import ElementFacts, ExpandOp, FilterOp, PositionOp
from colonnade.ops.split import Split

Array = npt.NDArray[Any]
Words = npt.NDArray[np.int64]

POOLINGS = {
    "sum": w.POOL_SUM,
    "mean": w.POOL_MEAN,
    "sqrtn": w.POOL_SQRTN,
    "max": w.POOL_MAX,
    "none": w.POOL_NONE,
    "marks": w.POOL_MARKS,
}
ITEM_BYTES = {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "string": 8}
LOADS = {"int32": w.LOAD_INT32, "string": w.LOAD_STRING}
VALUES = {"float32": w.VALUE_F32, "float64": w.VALUE_F64, "int32": w.VALUE_INT, "int64": w.VALUE_INT}
FORMS = {"float32": w.FORM_F32, FLOAT16: w.FORM_F16, BFLOAT16: w.FORM_BF16, INT8_ROWWISE: w.FORM_INT8}
MORE_ZEROS = TAIL + ALIGNMENT
"""A stored row of zeros has up to so many bytes more than one of float32."""
ROW_COST = 2
"""What a batch row of a column costs beside its elements, roughly. Units: nanoseconds."""
CACHE_BYTES = 1 << 20
FAR_BYTES = 1 << 14
"""Rows are prefetched where all tables together exceed a core's own cache, but for small tables, whose rows recur.
Tables up to so many bytes are copied, to lie side by side: in files each begins a page, at one place of a cache."""
MISS_COST, LAST_CACHE_BYTES = 20, 1 << 26
"""Of a lookup, with others under way, in a table that no cache holds much of. Units: nanoseconds; bytes."""
FIRST_CACHE_BYTES = 24 << 10
"""Of a core's first cache (32 KB or more), what tables and boundaries of a block may take."""
BYTES_A_BOUNDARY = 8
MOST_SPREAD = 2
"""What lies side by side takes at most so many times its own bytes."""
LEAST_COLUMNS = 8
"""Columns of a block of single ones, whatever they read: their slots fill whole cache lines."""
BLOCK_COLUMNS = {w.SINGLE: scratch.BLOCK_COLUMNS, w.POOLED: 4, w.NUMERIC: 32, w.SPREAD: 4}
"""Columns of one block, by kind; the scratch memory has room for so many single ones."""


@dataclass(frozen=True)
class Lowered:
    """The columns of one program as words.

    blocks: `[blocks, 7]`.   context: what the words name by its place in the call's context.
    columns, bounds: each column and its table's rows, by the number in its descriptor.
    work: cost of one batch row.   element_work: cost of one element, by its input of offsets.
    streams: whether slots are aligned for stores past the caches.
    Units: costs in nanoseconds, roughly.
    """

    blocks: Words
    context: Context
    columns: tuple[Column, ...]
    bounds: tuple[int, ...]
    work: float
    element_work: Mapping[str, float]
    streams: bool
    memory: Memory
    tables: tuple[Array, ...]


@dataclass(frozen=True)
class Join:
    """A step: pairs of the values and those of another chain; None: the elements' places in their batch rows."""

    other: Chain | None
    tile: str = JOINED


@dataclass(frozen=True)
class Chain:
    """A field's place, what is done to its elements, and the facts of the result."""

    field: str
    split: bytes
    steps: tuple[Step | Join, ...]
    facts: ElementFacts


def chain_of(expr: Expr, layout: Layout, memory: Memory) -> Chain:
    """The chain that an expression says. Errors: GraphError where it is none that the engine can run."""
    if isinstance(expr, Field):
        return Chain(expr.name, b"", (), ElementFacts(layout.dtype_of(expr.name)))
    assert isinstance(expr, Apply)
    first, *others = (chain_of(arg, layout, memory) for arg in expr.args)
    facts = expr.op.infer(first.facts, *(o.facts for o in others))
    if isinstance(expr.op, ExpandOp):
        if not isinstance(expr.args[0], Field) or not isinstance(expr.op, Split):
            raise GraphError("the cpu backend splits a field, and no result", got=repr(expr))
        return Chain(first.field, expr.op.separator, (), facts)
    joins = [Join(other) for other in others] + ([Join(None)] if isinstance(expr.op, PositionOp) else [])
    if joins:
        _check_join(expr, first, others)
    steps = (*first.steps, *joins, *lower(expr.op, first.facts.dtype, memory))
    return Chain(first.field, first.split, steps, facts)


def _check_join(expr: Apply, first: Chain, others: Sequence[Chain]) -> None:
    if len(others) > 1 or any(map(_joins_deep, others)):
        raise GraphError("the cpu backend joins one chain of ops on one field to another", got=repr(expr))
    if any(c.split for c in (first, *others)):
        raise GraphError("the cpu backend joins elements, and no tokens", got=repr(expr))
    if any(c.facts.dtype not in ("int32", "int64") for c in (first, *others)):
        raise GraphError("the cpu backend joins integers", got=repr(expr))


def _joins_deep(chain: Chain) -> bool:
    """Whether what the chain joins joins something itself."""
    inner = [s.other for s in chain.steps if isinstance(s, Join) and s.other is not None]
    return any(isinstance(s, Join) for o in inner for s in o.steps)


def lower_columns(
    columns: Sequence[Column], program: Program, weights: Weights, layout: Layout, tiles: Mapping[str, int]
) -> Lowered:
    """The words of columns, given the tiles' addresses. Errors: GraphError naming a column the engine cannot run."""
    kept = [c for c in columns if c.slots]
    memory = Memory()
    context = Context(
        tuple(dict.fromkeys(s.output for c in kept for s in c.slots)),
        tuple(dict.fromkeys(place.offsets for place in layout.ragged.values())),
        tuple(layout.ragged),
    )
    widest = max([1, *(t.embedding_dim for t in program.tables)])
    builder = _Builder(program, weights, layout, memory, context, tiles)
    builder.zeros, builder.dropped = (memory.hold(np.zeros(4 * widest + MORE_ZEROS, np.uint8)) for _ in range(2))
    made = [builder.column(number, c) for number, c in enumerate(kept)]
    order = sorted(range(len(made)), key=lambda i: (*made[i].group, made[i].slot, i))
    rows = np.zeros((len(made) + 1, w.DESCRIPTOR_BYTES // 8), np.int64)
    for at, i in enumerate(order):
        rows[at] = made[i].words
    memory_rows = memory.hold(rows)
    element_work = {name: sum(m.element_work for m in made if m.offsets == name) for name in context.offsets}
    return Lowered(
        blocks=_blocks([made[i] for i in order], memory_rows),
        context=context,
        columns=tuple(kept),
        bounds=tuple(m.bound for m in made),
        work=sum(m.work for m in made),
        element_work=element_work,
        streams=all(m.streams for m in made),
        memory=memory,
        tables=tuple(builder.tables.values()),
    )


def _blocks(made: Sequence[Made], first: int) -> Words:
    """Runs of columns of one group, cut to the size of a block."""
    rows, at = [], 0
    while at < len(made):
        end = at + 1
        while end < len(made) and made[end].group == made[at].group and _has_room(made[at:end], made[end]):
            end += 1
        kind, offsets, *_ = made[at].group
        adjacent = all(a.slot[1] == b.slot[0] for a, b in itertools.pairwise(made[at:end]))
        rows.append(
            [kind, first + w.DESCRIPTOR_BYTES * at, end - at, offsets, int(adjacent), 0, 0, *_reads(made[at:end])]
        )
        at = end
    _share_lines(rows, made)
    return np.array(rows, np.int64).reshape(-1, w.BLOCK_BYTES // 8)


def _reads(block: Sequence[Made]) -> tuple[int, int]:
    """Where the boundaries and small tables of a block's columns lie, if side by side, and their bytes.

    Facts: they are put into memory column by column; boundaries that columns share may lie elsewhere.
    """
    tables = [m.table for m in block]
    if not all(
        m.words[w.TREE // 8] and end - begin <= FAR_BYTES for m, (begin, end) in zip(block, tables, strict=True)
    ):
        return 0, 0
    first, last = min(begin for begin, _ in tables), max(end for _, end in tables)
    first = min([first, *(t for m in block if first - FAR_BYTES < (t := int(m.words[w.TREE // 8])) < first)])
    return (first, last - first) if last - first <= MOST_SPREAD * sum(m.touched for m in block) else (0, 0)


def _share_lines(rows: list[list[int]], made: Sequence[Made]) -> None:
    """Let a block write the first slot of the next where the two share a cache line.

    Facts: the slot's ids are then looked up by both blocks, so they are proven ones; it is the column's only slot.
    """
    at, adjacent, taken = w.COUNT // 8, w.ADJACENT // 8, w.TAKEN // 8
    end = 0
    for block, after in itertools.pairwise(rows):
        end += block[at]
        last, first = made[end - 1], made[end]
        side_by_side = last.group == first.group and last.slot[1] == first.slot[0]
        if (
            side_by_side
            and block[adjacent]
            and after[adjacent]
            and first.words[w.TREE // 8]
            and not first.words[w.COPIES // 8]
        ):
            after[taken] = block[w.TAKES // 8] = 1


def _has_room(block: Sequence[Made], more: Made) -> bool:
    """Whether a block takes one more column: what a tile of it reads is to stay in a core's first cache."""
    kind = more.group[0]
    if len(block) >= BLOCK_COLUMNS[kind]:
        return False
    if kind != w.SINGLE or len(block) < LEAST_COLUMNS:
        return True
    return sum(m.touched for m in block) + more.touched <= FIRST_CACHE_BYTES


@dataclass(frozen=True)
class Made:
    """One column's words.

    group: columns of equal groups may share a block; its kind comes first, then where the address of offsets lies.
    slot: where the first slot begins and ends in an output row.   touched: bytes of its table, and what finds the ids.
    table: addresses of its begin and end.
    work, element_work: cost of a batch row, of an element of a ragged row by the `offsets`.
    """

    words: Words
    group: tuple[int, ...]
    slot: tuple[int, int]
    touched: int
    table: tuple[int, int]
    bound: int
    work: float
    streams: bool
    offsets: str | None
    element_work: float


class _Builder:
    """Makes descriptors; keeps the tables they point to."""

    def __init__(
        self,
        program: Program,
        weights: Weights,
        layout: Layout,
        memory: Memory,
        context: Context,
        tiles: Mapping[str, int],
    ) -> None:
        self.program = {t.name: t for t in program.tables}
        self.table_bytes = sum(t.bytes for t in program.tables)
        self.weights = weights
        self.layout = layout
        self.memory = memory
        self.context = context
        self.tiles = tiles
        self.zeros = self.dropped = 0
        self.tables: dict[str, Array] = {}

    def column(self, number: int, column: Column) -> Made:
        """The descriptor of a column."""
        row = np.zeros(w.DESCRIPTOR_BYTES // 8, np.int64)
        ids = chain_of(column.ids, self.layout, self.memory)
        width, offsets = self.width(ids.field), self.layout.offsets_of(ids.field)
        self.chain(row, ids)
        row[w.WIDTH // 8] = width
        row[w.OFFSETS // 8] = 0 if offsets is None else self.context.offsets_word(offsets)
        row[w.NUMBER // 8] = number
        row[w.FILTERS // 8], row[w.FIRST_FILTER // 8] = self.filters(column, ids)
        row[w.WEIGHTS // 8] = self.factor(column, ids)
        row[w.POOLING // 8] = POOLINGS[column.pooling]
        row[w.ZERO // 8] = row[w.EMPTY // 8] = self.zeros
        if ids.split:
            row[w.SEPARATOR // 8] = self.memory.add(np.frombuffer(ids.split, np.uint8))
            row[w.SEPARATOR_WIDTH // 8] = len(ids.split)
        kind, wide = self.kind(row, column, ids)
        self.slots(row, column, wide)
        if kind == w.SINGLE:
            self.shortcut(row, ids)
        dim = int(row[w.DIM // 8])
        apart = (int(row[w.BUFFER // 8]), dim, int(row[w.FORM // 8])) if kind == w.SINGLE else (0, 0, 0)
        group = (kind, int(row[w.OFFSETS // 8]), *apart)
        bound = self.program[column.table].rows if column.table is not None else 0
        aligned = kind != w.SINGLE or dim % LANES != 0 or int(row[w.OFFSET // 8]) % (4 * LANES) == 0
        each = _cost(ids, dim, bound * int(row[w.ROW_BYTES // 8]))
        work = ROW_COST + max(width, 0) * each
        begin = int(row[w.OFFSET // 8])
        touched = max(bound, 1) * (int(row[w.ROW_BYTES // 8]) + BYTES_A_BOUNDARY * int(row[w.TREE // 8] != 0))
        first = int(row[w.TABLE // 8])
        table = (first, first + bound * int(row[w.ROW_BYTES // 8]))
        return Made(row, group, (begin, begin + 4 * dim), touched, table, bound, work, aligned, offsets, each)

    def width(self, field: str) -> int:
        """Elements a batch row of a field, or RAGGED."""
        return self.layout.places[field].width if field in self.layout.places else w.RAGGED

    def kind(self, row: Words, column: Column, ids: Chain) -> tuple[int, int]:
        """The kind of a column, and how wide its slots are; writes the words of its table."""
        width = int(row[w.WIDTH // 8])
        if width == w.RAGGED and (column.table is None or column.pooling == "none"):
            raise GraphError("a ragged field needs a table and a pooling", where=column.name, got=column.pooling)
        if column.table is None:
            if ids.split or ids.facts.dtype not in VALUES or column.weights is not None:
                raise GraphError("a column without a table is one number an element", where=column.name)
            row[w.VALUE // 8] = VALUES[ids.facts.dtype]
            return w.NUMERIC, width
        dim = self.table(row, column, ids)
        if column.pooling == "none":
            if ids.split:
                raise GraphError("an expanded column needs a pooling", where=column.name, got="none")
            # Apart from the zeros of an id outside the table: those take part in the product with a weight.
            row[w.EMPTY // 8] = self.dropped
            return (w.SINGLE, dim) if width == 1 and not row[w.WEIGHTS // 8] else (w.SPREAD, dim * width)
        single = width == 1 and not ids.split and not row[w.WEIGHTS // 8]
        return (w.SINGLE if single else w.POOLED), dim

    def shortcut(self, row: Words, ids: Chain) -> None:
        """Write the tree of a column that is nothing but a bucketized float32 whose ids are proven."""
        plain = not row[w.FILTERS // 8] and row[w.ROWS // 8] == w.UNCHECKED and len(ids.steps) == 1
        step = ids.steps[0] if plain else None
        if (
            isinstance(step, Step)
            and step.tile in ("bucketize_f32", "bucketize_grid")
            and self.layout.places[ids.field].dtype == "float32"
        ):
            tree, height = step.parameters
            if height <= 3:
                row[w.TREE // 8], row[w.HEIGHT // 8] = tree, height

    def table(self, row: Words, column: Column, ids: Chain) -> int:
        """Write the words of a column's table; gives its embedding_dim."""
        assert column.table is not None
        table = self.program[column.table]
        if ids.facts.dtype not in ("int32", "int64"):
            raise GraphError("ids are integers", where=column.name, got=ids.facts.dtype)
        array = self.tables.get(table.name)
        if array is None:
            array = _readable(self.weights.tables[table.name], table)
            if array.nbytes <= FAR_BYTES:
                array = self.memory.copy(array)
            self.tables[table.name] = array
        if array.shape != table.stored_shape:
            raise ShapeError(
                "a table's weights have another shape", where=table.name, got=str(array.shape),
                want=str(table.stored_shape),
            )  # fmt: skip
        stride = array.strides[0] if table.rows > 1 else table.row_bytes
        address = int(array.__array_interface__["data"][0])
        lo, hi = ids.facts.lo, ids.facts.hi
        proven = column.ids_proven or (lo is not None and lo >= 0 and hi is not None and hi < table.rows)
        row[w.TABLE // 8] = address
        row[w.ROWS // 8] = w.UNCHECKED if proven else table.rows
        row[w.ROW_BYTES // 8] = stride
        row[w.DIM // 8] = table.embedding_dim
        row[w.FORM // 8] = FORMS[table.dtype]
        row[w.FAR // 8] = int(self.table_bytes > CACHE_BYTES and table.rows * stride >= FAR_BYTES)
        if column.default_row is not None:
            if not 0 <= column.default_row < table.rows:
                raise GraphError("a default row outside the table", where=column.name, got=str(column.default_row))
            row[w.EMPTY // 8] = address + stride * column.default_row
        return table.embedding_dim

    def slots(self, row: Words, column: Column, width: int) -> None:
        """Write the words of a column's slots."""
        places = []
        for slot in column.slots:
            if slot.width != width:
                raise ShapeError("a slot of another width", where=column.name, got=str(slot.width), want=str(width))
            places.append((self.context.output_word(slot.output), 4 * slot.offset))
        row[w.BUFFER // 8], row[w.OFFSET // 8] = places[0]
        if places[1:]:
            row[w.COPIES // 8] = len(places) - 1
            row[w.FIRST_COPY // 8] = self.memory.add(np.array(places[1:], np.int64))

    def chain(self, row: Words, chain: Chain) -> None:
        """Write the words of a chain."""
        place, dtype = self.layout.places.get(chain.field), self.layout.dtype_of(chain.field)
        if dtype not in ITEM_BYTES:
            want = ", ".join(ITEM_BYTES)
            raise GraphError("the cpu backend reads no such field", where=chain.field, got=dtype, want=want)
        if place is None:
            row[w.BASE // 8] = self.context.ragged_word(chain.field)
        else:
            row[w.BASE // 8] = w.SOURCES + 8 * w.DTYPES.index(dtype)
            row[w.START // 8] = place.start
        row[w.ITEM // 8] = ITEM_BYTES[dtype]
        row[w.LOAD // 8] = LOADS.get(dtype, w.LOAD_DIRECT)
        row[w.STEPS // 8] = len(chain.steps)
        steps = [self.joined(s, chain) if isinstance(s, Join) else s for s in chain.steps]
        row[w.FIRST_STEP // 8] = encode(steps, self.tiles, self.memory)

    def joined(self, join: Join, chain: Chain) -> Step:
        """The step of a join, its other chain written. Errors: ShapeError where that has other rows."""
        width = self.width(chain.field)
        if join.other is None:
            if width == w.RAGGED:
                raise GraphError("only elements of dense fields have places in their rows", got=chain.field)
            return Step(JOINED, (0, width))
        self.same_rows(f"{chain.field}, {join.other.field}", join.other, chain)
        row = np.zeros(w.CHAIN_BYTES // 8, np.int64)
        self.chain(row, join.other)
        return Step(JOINED, (self.memory.add(row), 0))

    def filters(self, column: Column, ids: Chain) -> tuple[int, int]:
        """Number and address of a column's filters, those left out that can drop nothing."""
        rows = []
        for expr in column.filters:
            chain = chain_of(expr, self.layout, self.memory)
            if not isinstance(expr, Apply) or not isinstance(expr.op, FilterOp):
                raise GraphError("a column's filter is no predicate", where=column.name, got=repr(expr))
            if chain.split and (chain.split, chain.field) != (ids.split, ids.field):
                raise GraphError("a filter looks at other tokens than the ids", where=column.name, got=repr(expr))
            self.same_rows(column.name, chain, ids)
            if not chain.steps or chain.steps[-1].tile not in FILTERS:
                continue
            row = np.zeros(w.CHAIN_BYTES // 8, np.int64)
            self.chain(row, chain)
            row[w.ON_TOKENS // 8] = int(bool(chain.split))
            rows.append(row)
        return (len(rows), self.memory.add(np.stack(rows))) if rows else (0, 0)

    def factor(self, column: Column, ids: Chain) -> int:
        """Address of the chain of a column's weights, or 0."""
        if column.weights is None:
            return 0
        chain = chain_of(column.weights, self.layout, self.memory)
        if chain.split or chain.facts.dtype not in VALUES:
            raise GraphError(
                "weights are numbers, one for each element of a field", where=column.name, got=repr(column.weights)
            )
        self.same_rows(column.name, chain, ids)
        if chain.facts.dtype != "float32":
            chain = chain_of(Apply(Cast("float32"), column.weights), self.layout, self.memory)
        row = np.zeros(w.CHAIN_BYTES // 8, np.int64)
        self.chain(row, chain)
        return self.memory.add(row)

    def same_rows(self, where: str, chain: Chain, ids: Chain) -> None:
        """Errors: ShapeError where a field beside the ids has another number of elements a row."""
        got, want = ((self.width(c.field), self.layout.offsets_of(c.field)) for c in (chain, ids))
        if got != want:
            raise ShapeError(
                "fields of one column differ in width", where=where,
                got=got[1] or str(got[0]), want=want[1] or str(want[0]),
            )  # fmt: skip


def _readable(array: Array, table: Table) -> Array:
    """The same rows, each contiguous. Facts: an unaligned view stays what it is."""
    got = f"{table.dtype} in an array of {array.dtype.name}"
    if table.dtype not in FORMS:
        raise GraphError("the cpu backend cannot read such a table", where=table.name, got=got, want=", ".join(FORMS))
    want = carrier(table.dtype)
    if array.dtype.name != want:
        raise GraphError("a table's weights have another dtype", where=table.name, got=got, want=f"an array of {want}")
    contiguous = array.ndim == 2 and (array.shape[1] <= 1 or array.strides[1] == array.itemsize)
    return array if contiguous else np.ascontiguousarray(array)


def _cost(ids: Chain, dim: int, table_bytes: int) -> float:
    """What one element of a column costs, roughly. Units: nanoseconds."""
    lookup = 2 + dim / 8 + MISS_COST * (table_bytes > LAST_CACHE_BYTES)
    return (8 if ids.split else 1) * (lookup + 10 * any(s.tile.startswith("hash") for s in ids.steps))
