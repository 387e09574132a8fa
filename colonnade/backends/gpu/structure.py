"""The code of a unit without its data: what to do for one tile of rows of one of the units that share it.

Legend: N elements of a tile (lanes), D values of a row, padded to a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from colonnade.backends.gpu import ops as _ops  # registers what each op writes
from colonnade.backends.gpu.emit import Code, Emitted, Evaluator, Memory, Number, Text
from colonnade.backends.gpu.units import NUMERIC, POOLED, SINGLE, SPREAD, Target, Unit, expansion_of
from colonnade.core.batch import Layout
from colonnade.core.expr import Expr
from colonnade.errors import GraphError
from colonnade.ops.op import ElementFacts
from colonnade.ops.split import Split

assert _ops.__all__

VALUES = 1024
"""Values of a tile: rows times the block of each target."""
MOST_ROWS, FEWEST_ROWS = 128, 4
BUFFERS = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}


@dataclass(frozen=True)
class Structure:
    """Code that units share: its body, the rows of one tile, and the device files it uses."""

    body: str
    rows: int
    num_words: int
    used: frozenset[str]


@dataclass(frozen=True)
class Written:
    """A unit as its structure and the words of its descriptor."""

    structure: Structure
    words: tuple[int, ...]


def write(unit: Unit, layout: Layout, tables: Mapping[str, int], bounds: Mapping[str, int], memory: Memory) -> Written:
    """A unit's structure and words.

    tables: the address of each table's rows.   bounds: its number of rows.
    """
    writer = _Writer(unit, layout, tables, bounds, memory)
    WRITERS[unit.kind](writer)
    code = writer.code
    return Written(Structure(code.text, writer.rows, len(code.words), frozenset(code.used)), tuple(code.words))


class _Writer:
    """What the kinds of units have in common."""

    def __init__(
        self, unit: Unit, layout: Layout, tables: Mapping[str, int], bounds: Mapping[str, int], memory: Memory
    ) -> None:
        self.unit = unit
        self.column = unit.column
        self.layout = layout
        self.tables = tables
        self.bounds = bounds
        self.code = Code(memory)
        self.rows = self._tile_rows()

    def _tile_rows(self) -> int:
        if self.unit.kind == NUMERIC:
            return MOST_ROWS
        widest = max(t.block for t in self.unit.targets) * (len(self.unit.targets) if self.unit.kind == POOLED else 1)
        return max(FEWEST_ROWS, min(MOST_ROWS, VALUES // widest))

    def elements(self) -> str:
        """The elements of the tile, one a lane: sets `e` [N], `live` [N]; gives the word that is the width."""
        width = self.code.parameter(self.unit.width)
        self.code.line(f"e = tile * {self.rows} + tl.arange(0, {self.rows})")
        self.code.line(f"live = e < rows * {width}.to(tl.int32)")
        return width

    def field(self, name: str, element: str = "e") -> Emitted:
        """The load of a field's elements."""
        place = self.layout.places[name]
        first = self.code.once(f"rows.to(tl.int64) * {self.code.parameter(place.start)}", "f")
        if place.dtype == "string":
            start = self.code.let(f"tl.load(offsets + {first} + {element}, mask=live, other=0)")
            end = self.code.let(f"tl.load(offsets + {first} + {element} + 1, mask=live, other=0)")
            return Text(start, self.code.let(f"{end} - {start}"))
        if place.dtype not in BUFFERS:
            raise GraphError("the gpu backend reads no fields of this dtype", where=name, got=place.dtype)
        source = BUFFERS[place.dtype]
        loaded = self.code.let(f"tl.load({source} + {first} + {element}, mask=live, other=0)")
        return Number(loaded, ElementFacts(place.dtype))

    def kept(self, evaluator: Evaluator, live: str = "live") -> str:
        """The mask of elements that all filters keep."""
        masks = [live, *(evaluator.number(f).name for f in self.column.filters)]
        return self.code.let(" & ".join(f"({m})" for m in masks), "keep")

    def output(self, target: Target) -> tuple[str, str]:
        """The variables of an output and of its row stride."""
        return f"out{target.output}", f"stride{target.output}"

    def inside(self, target: Target, ids: str, keep: str) -> str:
        """The mask of kept ids that lie in the table; counts the others."""
        bound = self.code.parameter(self.bounds[target.table])
        if self.column.ids_proven:
            return keep
        self.code.used.add("lookup")
        function = f"counted({ids}, {bound}, {keep}, status)" if target.counts else f"within({ids}, {bound}, {keep})"
        return self.code.let(function, "ok")

    def rows_of(self, target: Target, ids: str, mask: str) -> str:
        """The load of rows [N, D]."""
        item = {"float32": 4, "float16": 2, "bfloat16": 2}[target.table_dtype]
        kind = {"float32": "tl.float32", "float16": "tl.float16", "bfloat16": "tl.bfloat16"}[target.table_dtype]
        alignment = item * target.alignment
        table = self.code.pointer(self.tables[target.table] + item * target.first, kind, alignment)
        dim, row_dim = self.dims_of(target)
        return self.code.call(
            "look_up", table, ids, mask, dim, row_dim, str(target.block), str(target.exact), file="lookup"
        )

    def dims_of(self, target: Target) -> tuple[str, str]:
        """The values of a chunk and of a table's row: literals where they are the block."""
        if target.exact:
            return str(target.block), str(target.block)
        words = (self.code.parameter(value) for value in (target.dim, target.row_dim))
        dim, row_dim = (self.code.once(f"tl.multiple_of({word}, {target.alignment})") for word in words)
        return dim, row_dim

    def store(self, target: Target, row: str, place: str, values: str) -> None:
        """The store of [N, D] values into their slot; `place` is added to the slot's offset."""
        offset = self.code.once(f"tl.multiple_of({self.code.parameter(target.offset)}, {target.alignment})")
        dim, _ = self.dims_of(target)
        out, stride = self.output(target)
        args = [out, stride, row, offset, place, values, "live", dim]
        constants = [str(target.block), str(target.exact)]
        self.code.used.add("lookup")
        self.code.line(f"put({', '.join([*args, *constants])})")


def _numeric(writer: _Writer) -> None:
    """The values of a field, each in its place."""
    code = writer.code
    width = writer.elements()
    evaluator = Evaluator(code, writer.field, {})
    value = code.let(f"{evaluator.number(writer.column.ids).name}.to(tl.float32)")
    row, place = _row_and_place(code, width)
    for target in writer.unit.targets:
        out, stride = writer.output(target)
        offset = code.parameter(target.offset)
        code.line(f"tl.store({out} + {row}.to(tl.int64) * {stride} + ({offset} + {place}), {value}, mask=live)")


def _row_and_place(code: Code, width: str) -> tuple[str, str]:
    row = code.let(f"e // {width}.to(tl.int32)")
    return row, code.let(f"e - {row} * {width}.to(tl.int32)")


def _single(writer: _Writer) -> None:
    """One element a row: its row of the table, or the default row, or zeros."""
    code, column = writer.code, writer.column
    writer.elements()
    evaluator = Evaluator(code, writer.field, {})
    keep = writer.kept(evaluator)
    ids = evaluator.number(column.ids).name
    weight = _weight(evaluator, column.weights)
    for target in writer.unit.targets:
        ok = writer.inside(target, ids, keep)
        rows = writer.rows_of(target, ids, ok)
        if weight is not None:
            rows = code.call(f"weighted_{column.pooling}", rows, weight, file="weights")
        rows = _with_default(writer, target, rows, keep)
        writer.store(target, "e", "0", rows)


def _with_default(writer: _Writer, target: Target, rows: str, keep: str) -> str:
    """Rows where `keep` [N] is true, elsewhere the column's default row or zeros."""
    default = target.default_row
    if default is None and writer.column.weights is None:
        return rows  # what is not kept was not loaded: zeros
    if default is None:
        return writer.code.let(f"tl.where({keep}[:, None], {rows}, 0.0)")
    row = writer.code.parameter(default)
    other = writer.rows_of(target, f"(tl.full(e.shape, 0, tl.int64) + {row})", f"(live & ~{keep})")
    return writer.code.let(f"tl.where({keep}[:, None], {rows}, {other})")


def _weight(evaluator: Evaluator, weights: Expr | None) -> str | None:
    if weights is None:
        return None
    return evaluator.code.let(f"{evaluator.number(weights).name}.to(tl.float32)")


def _spread(writer: _Writer) -> None:
    """Every element's row in a place of its own; zeros where a filter drops one."""
    code, column = writer.code, writer.column
    width = writer.elements()
    evaluator = Evaluator(code, writer.field, {})
    keep = writer.kept(evaluator)
    ids = evaluator.number(column.ids).name
    weight = _weight(evaluator, column.weights)
    row, place = _row_and_place(code, width)
    for target in writer.unit.targets:
        ok = writer.inside(target, ids, keep)
        rows = writer.rows_of(target, ids, ok)
        if weight is not None:
            rows = code.let(f"tl.where({keep}[:, None], {rows} * {weight}[:, None], 0.0)")
        _, row_dim = writer.dims_of(target)
        writer.store(target, row, f"{place} * {row_dim}", rows)


def _pooled(writer: _Writer) -> None:
    """The elements of a row one after the other, a row a lane."""
    code = writer.code
    width = code.parameter(writer.unit.width)
    code.line(f"row = tile * {writer.rows} + tl.arange(0, {writer.rows})")
    code.line("live = row < rows")
    code.line("is_row = live")
    sums = _Sums(writer)
    code.line("k = 0")
    expansion = expansion_of(writer.column.ids)
    with code.block(f"while k < {width}.to(tl.int32):"):
        code.line("live = is_row")
        code.line(f"e = row * {width}.to(tl.int32) + k")
        if expansion is None:
            evaluator = Evaluator(code, writer.field, {})
            sums.add(evaluator, writer.kept(evaluator))
        else:
            assert isinstance(expansion.op, Split)
            _tokens(writer, expansion.op, expansion.args[0], expansion, sums)
        code.line("k += 1")
    code.line("live = is_row")
    sums.finish()


def _tokens(writer: _Writer, op: Split, source: Expr, expansion: Expr, sums: _Sums) -> None:
    """A loop over the tokens of the strings, those of all lanes at once."""
    code = writer.code
    evaluator = Evaluator(code, writer.field, {})
    text = evaluator.value(source)
    assert isinstance(text, Text)
    early = [f for f in writer.column.filters if expansion_of(f) is None]
    for predicate in early:
        code.line(f"live = live & ({evaluator.number(predicate).name})")
    code.used.add("text")
    code.line(f"at = {text.start}")
    code.line(f"end = {text.start} + {text.length}")
    if len(op.separator) == 1:
        byte = code.parameter(op.separator[0])
        find = f"find_byte(text, at, end, {byte}.to(tl.int32), live)"
        length = "1"
    else:
        from colonnade.backends.gpu.ops.not_equal import words_of

        separator, length = code.constant(words_of(op.separator)), code.parameter(len(op.separator))
        find = f"find_bytes(text, at, end, {separator}, {length}, live)"
    with code.block("while any_lane(live):"):
        code.line(f"stop = {find}")
        inner = Evaluator(code, writer.field, {**evaluator.done, expansion: Text("at", "(stop - at)")})
        sums.add(inner, writer.kept(inner))
        code.line("live = live & (stop < end)")
        code.line(f"at = tl.where(live, stop + {length}, at)")


class _Sums:
    """Running sums of a pooled unit: `[N, D]` a target, and the divisor [N]."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer
        self.pooling = writer.column.pooling
        self.targets = writer.unit.targets
        code = writer.code
        # -0.0 is what changes no value that is added to it, -0.0 included.
        start = "float('-inf')" if self.pooling == "max" else "-0.0"
        for t, target in enumerate(self.targets):
            code.line(f"sum{t} = tl.full([{writer.rows}, {target.block}], {start}, tl.float32)")
        code.line(f"count = tl.full([{writer.rows}], 0, tl.int32)")
        code.line(f"divisor = tl.full([{writer.rows}], 0.0, tl.float32)")

    def add(self, evaluator: Evaluator, keep: str) -> None:
        """Adds the elements that `keep` holds."""
        code, column = self.writer.code, self.writer.column
        ids = evaluator.number(column.ids).name
        weight = _weight(evaluator, column.weights)
        for t, target in enumerate(self.targets):
            ok = self.writer.inside(target, ids, keep)
            rows = self.writer.rows_of(target, ids, ok)
            if weight is not None:
                rows = code.let(f"{rows} * {weight}[:, None]")
            if self.pooling == "max":
                larger = f"tl.maximum(sum{t}, {rows}, propagate_nan=tl.PropagateNan.ALL)"
                code.line(f"sum{t} = tl.where({keep}[:, None], {larger}, sum{t})")
            else:
                code.line(f"sum{t} += tl.where({keep}[:, None], {rows}, -0.0)")
        code.line(f"count += {keep}.to(tl.int32)")
        if weight is not None:
            term = {"mean": weight, "sqrtn": f"{weight} * {weight}"}.get(self.pooling)
            if term is not None:
                code.line(f"divisor += tl.where({keep}, {term}, 0.0)")

    def finish(self) -> None:
        """Divides, puts default rows, and stores."""
        code, column = self.writer.code, self.writer.column
        if column.weights is None:
            code.line("divisor = count.to(tl.float32)")
        if self.pooling == "sqrtn":
            code.line("divisor = tl.sqrt_rn(divisor)")
        code.line("some = count > 0")
        for t, target in enumerate(self.targets):
            if self.pooling in ("mean", "sqrtn"):
                divided = f"tl.div_rn(sum{t}, tl.where(divisor == 0.0, 1.0, divisor)[:, None])"
                code.line(f"sum{t} = tl.where((divisor == 0.0)[:, None], 0.0, {divided})")
            other = "0.0"
            if target.default_row is not None:
                row = code.parameter(target.default_row)
                other = self.writer.rows_of(target, f"(tl.full(row.shape, 0, tl.int64) + {row})", "(live & ~some)")
            code.line(f"sum{t} = tl.where(some[:, None], sum{t}, {other})")
            self.writer.store(target, "row", "0", f"sum{t}")


WRITERS: Mapping[str, Callable[[_Writer], None]] = {
    NUMERIC: _numeric,
    SINGLE: _single,
    SPREAD: _spread,
    POOLED: _pooled,
}
