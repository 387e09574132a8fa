"""What the kinds of units have in common: loads of fields, filters, lookups and stores.

Legend: N elements of a tile (lanes), D values of a row, padded to a power of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from colonnade.backends.gpu.emit import TRITON, Code, Emitted, Evaluator, Memory, Number, Text
from colonnade.backends.gpu.units import Target, Unit
from colonnade.core.batch import Layout
from colonnade.core.expr import Expr
from colonnade.core.quantize import ALIGNMENT, INT8_ROWWISE, row_width, tail_offset
from colonnade.errors import GraphError
from colonnade.ops.op import ElementFacts

BUFFERS = {"float32": "all_f32", "float64": "all_f64", "int32": "all_i32", "int64": "all_i64"}
TABLE_ITEMS = {"float32": 4, "float16": 2, "bfloat16": 2}
MOST_ROWS, FEWEST_ROWS = 128, 4


@dataclass(frozen=True)
class Places:
    """Where things lie that every unit needs.

    tables: the address of each table's rows.   bounds: its number of rows.   words: the word of the header that holds
    the address of a ragged field's values, or of an offsets input; the bytes of a string field follow in the next word.
    windows: identity matrices whose rows are windows of one vector: each row begins a value before the last one's.
    """

    layout: Layout
    tables: Mapping[str, int]
    bounds: Mapping[str, int]
    words: Mapping[str, int]
    windows: frozenset[str] = frozenset()


class Writer:
    """Writes one unit. rows: lanes of a tile."""

    def __init__(self, unit: Unit, places: Places, memory: Memory, rows: int) -> None:
        self.unit = unit
        self.column = unit.column
        self.places = places
        self.code = Code(memory)
        self.rows = rows

    def elements(self) -> str:
        """The elements of the tile, one a lane: sets `e` [N], `live` [N]; gives the word that is the width."""
        width = self.code.parameter(self.unit.width)
        self.code.line(f"e = tile * {self.rows} + tl.arange(0, {self.rows})")
        self.code.line(f"live = e < rows * {width}.to(tl.int32)")
        return width

    def evaluator(self) -> Evaluator:
        """Expressions over the elements `e`."""
        return Evaluator(self.code, self.field, {}, None if self.unit.offsets is not None else self.place)

    def place(self) -> Number:
        """The places of the elements `e` in their batch rows."""
        width = self.code.parameter(self.unit.width)
        return Number(self.code.let(f"e % {width}.to(tl.int32)"), ElementFacts("int64"))

    def field(self, name: str) -> Emitted:
        """The load of a field's elements `e`."""
        layout = self.places.layout
        if name in layout.ragged:
            return self._ragged_field(name, layout.ragged[name].dtype)
        place = layout.places[name]
        first = self.code.once(f"rows.to(tl.int64) * {self.code.parameter(place.start)}", "f")
        if place.dtype == "string":
            return self._strings(f"offsets + {first}", "text")
        if place.dtype not in BUFFERS:
            raise GraphError("the gpu backend reads no fields of this dtype", where=name, got=place.dtype)
        loaded = self.code.let(f"tl.load({BUFFERS[place.dtype]} + {first} + e, mask=live, other=0)")
        return Number(loaded, ElementFacts(place.dtype))

    def _ragged_field(self, name: str, dtype: str) -> Emitted:
        if dtype == "string":
            data = self.header_pointer(self.places.words[name] + 1, "tl.uint64")
            return self._strings(self.header_pointer(self.places.words[name], "tl.int64"), data)
        if dtype not in BUFFERS:
            raise GraphError("the gpu backend reads no fields of this dtype", where=name, got=dtype)
        values = self.header_pointer(self.places.words[name], TRITON[dtype])
        return Number(self.code.let(f"tl.load({values} + e, mask=live, other=0)"), ElementFacts(dtype))

    def _strings(self, offsets: str, data: str) -> Text:
        start = self.code.let(f"tl.load({offsets} + e, mask=live, other=0)")
        end = self.code.let(f"tl.load({offsets} + e + 1, mask=live, other=0)")
        return Text(start, self.code.let(f"{end} - {start}"), data)

    def header_pointer(self, word: int, to: str) -> str:
        """The pointer that a word of the header holds: it differs from request to request."""
        at = self.code.parameter(word)
        return self.code.once(f"tl.load(header + {at}).to(tl.pointer_type({to}))", "a")

    def kept(self, evaluator: Evaluator, live: str = "live") -> str:
        """The mask of elements that all filters keep."""
        masks = [live, *(evaluator.number(f).name for f in self.column.filters)]
        return self.code.let(" & ".join(f"({m})" for m in masks), "keep")

    def weight(self, evaluator: Evaluator, weights: Expr | None) -> str | None:
        """The elements' weights as float32; None without weights."""
        if weights is None:
            return None
        return self.code.let(f"{evaluator.number(weights).name}.to(tl.float32)")

    def inside(self, target: Target, ids: str, keep: str) -> str:
        """The mask of kept ids that lie in the table; counts the others."""
        bound = self.code.parameter(self.places.bounds[target.table])
        if self.column.ids_proven:
            return keep
        self.code.used.add("lookup")
        function = f"counted({ids}, {bound}, {keep}, status)" if target.counts else f"within({ids}, {bound}, {keep})"
        return self.code.let(function, "ok")

    def rows_of(self, target: Target, ids: str, mask: str) -> str:
        """The load of rows [N, D] as float32."""
        if target.table_dtype == INT8_ROWWISE:
            return self._narrow_rows_of(target, ids, mask)
        if target.table_dtype not in TABLE_ITEMS:
            raise GraphError(
                "the gpu backend reads no tables of this dtype", where=target.table, got=target.table_dtype
            )
        item = TABLE_ITEMS[target.table_dtype]
        address = self.places.tables[target.table] + item * target.first
        is_window = target.table in self.places.windows
        alignment = item if is_window else item * target.alignment
        table = self.code.pointer(address, f"tl.{target.table_dtype}", alignment)
        dim, row_dim = self.dims_of(target)
        if is_window:
            row_dim = "-1"
        constants = (str(target.block), str(target.exact))
        return self.code.call("look_up", table, ids, mask, dim, row_dim, *constants, file="lookup")

    def _narrow_rows_of(self, target: Target, ids: str, mask: str) -> str:
        """Rows of codes; a row's scale and bias follow them."""
        table = self.code.pointer(self.places.tables[target.table], "tl.uint8", ALIGNMENT)
        width, tail = row_width(INT8_ROWWISE, target.row_dim), tail_offset(target.row_dim)
        places = [self.code.parameter(n) for n in (target.first, width, tail)]
        dim, _ = self.dims_of(target)
        arguments = (table, ids, mask, dim, *places, str(target.block), str(target.exact))
        return self.code.call("look_up_codes", *arguments, file="codes")

    def default_of(self, target: Target, lanes: str, mask: str) -> str:
        """The default row where `mask` is set, else zeros; `lanes` is a variable [N]."""
        if target.default_row is None:
            return "0.0"
        row = self.code.parameter(target.default_row)
        return self.rows_of(target, f"(tl.full({lanes}.shape, 0, tl.int64) + {row})", mask)

    def dims_of(self, target: Target) -> tuple[str, str]:
        """The values of a chunk and of a table's row: literals where they are the block."""
        if target.exact:
            return str(target.block), str(target.block)
        words = (self.code.parameter(value) for value in (target.dim, target.row_dim))
        dim, row_dim = (self.code.once(f"tl.multiple_of({word}, {target.alignment})") for word in words)
        return dim, row_dim

    def store(self, target: Target, row: str, place: str, values: str, live: str = "live") -> None:
        """The store of [N, D] values into their slot; `place` is added to the slot's offset."""
        offset = self.code.once(f"tl.multiple_of({self.code.parameter(target.offset)}, {target.alignment})")
        dim, _ = self.dims_of(target)
        args = [f"out{target.output}", f"stride{target.output}", row, offset, place, values, live, dim]
        self.code.used.add("lookup")
        self.code.line(f"put({', '.join([*args, str(target.block), str(target.exact)])})")

    def row_and_place(self, width: str) -> tuple[str, str]:
        """The batch row of each element `e`, and its place there."""
        row = self.code.let(f"e // {width}.to(tl.int32)")
        return row, self.code.let(f"e - {row} * {width}.to(tl.int32)")
