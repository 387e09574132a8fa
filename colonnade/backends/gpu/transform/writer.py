"""What the units of a transform have in common: words of the table, elements, weights, stores.

Legend: N lanes of a tile; `e` [N] places of elements that are read, `j` [N] places of results, `live` [N] whether a
lane has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from colonnade.backends.gpu.emit import Code, Emitted, Evaluator, Memory, Number, Text
from colonnade.backends.gpu.transform import words as w
from colonnade.backends.gpu.transform.plan import DENSE, IDS, Output, Plan, is_node, lists_truncated, rows_of
from colonnade.core.expr import Apply, Expr, Field
from colonnade.ops.weigh import Weigh

STORED = {"int32": "tl.int32", "int64": "tl.int64", "float32": "tl.float32", "float64": "tl.float64", "bool": "tl.int8"}
"""Elements as they lie in memory."""


@dataclass(frozen=True)
class Element:
    """The variables that hold an element and its weight; None: it has none."""

    value: Emitted
    weight: str | None


class Writer:
    """Writes one unit. references: those of its words that are places of words of the table, which the header has."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        self.plan = plan
        self.code = Code(memory)
        self.references: list[int] = []
        self._numbers = {e: k for k, e in enumerate(plan.values)}
        self._once: dict[tuple[object, ...], str] = {}

    # --- words ------------------------------------------------------------------------------------------------------
    def place(self, expr: Expr, word: int) -> int:
        """The place of a value's word in the table."""
        return w.FIRST_VALUE + w.VALUE_WORDS * self._numbers[expr] + word

    def word(self, expr: Expr, word: int) -> str:
        """The variable that holds a value's word."""
        return self._known(("word", expr, word), lambda: self.entry(self.place(expr, word)))

    def entry(self, place: int) -> str:
        """The variable that holds a word of the table."""
        self.references.append(len(self.code.words))
        return self.code.parameter(place)

    def rows(self) -> str:
        """The variable that holds the number of batch rows."""
        return self._known(("rows",), lambda: self.entry(w.ROWS))

    def pointer(self, expr: Expr, word: int, to: str) -> str:
        """The variable that holds the pointer that a value's word gives."""
        return self._known(("pointer", expr, word, to), lambda: self._pointer(expr, word, to))

    def _pointer(self, expr: Expr, word: int, to: str) -> str:
        at = self.word(expr, word)
        if is_node(expr):
            base = "out" if word in w.IN_OUT else "work"
            at = f"({base}.to(tl.int64) + {at})"
        return self.code.once(f"{at}.to(tl.pointer_type({to}))", "a")

    def in_out(self, place: int, to: str) -> str:
        """The pointer to bytes of `out` that a word of the table gives."""
        return self.code.once(f"(out.to(tl.int64) + {self.entry(place)}).to(tl.pointer_type({to}))", "a")

    def inner(self, expr: Expr) -> str:
        """The pointer to a value's offsets, which count elements."""
        return self.pointer(expr, w.INNER, "tl.int64")

    def outer(self, expr: Expr) -> str:
        """The pointer to the offsets that count its lists."""
        return self.pointer(rows_of(expr), w.OUTER, "tl.int64")

    def size_place(self, node: Expr) -> int:
        """The word of `out` that holds a node's number of elements; that of its lists follows."""
        return 2 * (self._numbers[node] - len(self.plan.fields))

    def arrivals_place(self, node: Expr) -> int:
        """The byte of `work` where the programs that count a node's elements are counted."""
        return w.ARRIVALS + 2 * self.size_place(node)

    def count(self, expr: Expr) -> str:
        """The variable that holds a value's number of elements, of which none lies outside its memory."""
        if not is_node(expr):
            return self.word(expr, w.COUNT)
        return self._known(("count", expr), lambda: self._counted(self.size_place(expr), self.word(expr, w.COUNT)))

    def bags(self, expr: Expr) -> str:
        """The variable that holds a value's number of rows, or of lists."""
        lists = rows_of(expr)
        if not is_node(lists):
            return self.word(lists, w.BAGS)
        if not lists_truncated(lists, self.plan.traits):
            return self.rows()
        place = self.size_place(lists) + 1
        return self._known(("bags", lists), lambda: self._counted(place, self.word(lists, w.BAGS)))

    def _counted(self, place: int, most: str) -> str:
        return self.code.once(f"tl.minimum(tl.load(out + {self.code.parameter(place)}), {most})", "c")

    def _known(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        found = self._once.get(key)
        if found is None:
            found = self._once[key] = make()
        return found

    # --- lanes ------------------------------------------------------------------------------------------------------
    def lanes(self, name: str, count: str, items: int) -> None:
        """Sets the variable of that name [N] and `live`: those of the tile's places that lie below a number."""
        self.code.line(f"{name} = tile * {items} + tl.arange(0, {items})")
        self.code.line(f"live = {name} < {count}")

    def row_of(self, offsets: str, rows: str, place: str) -> str:
        """The variable that holds the row in which each place lies."""
        return self.code.call("row_of_place", offsets, rows, place, "live", file="ragged")

    # --- stores -----------------------------------------------------------------------------------------------------
    def fill(self, node: Expr, element: Element, place: str) -> None:
        """The store of an element of a node at its place, where `live`."""
        value = element.value
        if isinstance(value, Text):
            start = f"{value.data}.to(tl.int64) + {value.start}"
            self._store(self.pointer(node, w.DATA, "tl.int64"), place, start)
            self._store(self.pointer(node, w.TEXT, "tl.int64"), place, value.length)
        else:
            kind = STORED[value.dtype]
            self._store(self.pointer(node, w.DATA, kind), place, f"{value.name}.to({kind})")
        if element.weight is not None:
            self._store(self.pointer(node, w.WEIGHTS, "tl.float32"), place, element.weight)

    def put(self, output: Output, element: Element, place: str) -> None:
        """The store of an element of a feature, where `live`."""
        at = w.FIRST_VALUE + w.VALUE_WORDS * len(self._numbers)
        at += w.OUTPUT_WORDS * self.plan.outputs.index(output)
        value = element.value
        assert isinstance(value, Number)
        if output.kind == IDS:
            ids = self.in_out(w.IDS, "tl.int64")
            before = [o for o in self.plan.outputs if o.kind == IDS].index(output)
            begin = self.code.parameter(2 * len(self.plan.nodes) + before)
            begin = self.code.once(f"tl.load(out + {begin})", "b")
            self._store(f"{ids} + {begin}", place, f"{value.name}.to(tl.int64)")
        else:
            kind = "tl.float32" if output.kind == DENSE else STORED[value.dtype]
            self._store(self.in_out(at + w.BEGIN, kind), place, f"{value.name}.to({kind})")
        if output.own_weights:
            assert element.weight is not None
            self._store(self.in_out(at + w.FACTORS, "tl.float32"), place, element.weight)

    def _store(self, pointer: str, place: str, value: str) -> None:
        self.code.line(f"tl.store({pointer} + {place}, {value}, mask=live)")


class Elements(Evaluator):
    """Expressions at places of their values. root: the value in which these lie, where `live`; others are checked.

    done, weights: what is known of nodes beforehand.
    """

    def __init__(self, writer: Writer, place: str, root: Expr, made: Mapping[Expr, Element] | None = None) -> None:
        known = made or {}
        super().__init__(writer.code, self._load, {e: x.value for e, x in known.items()})
        self.writer = writer
        self._place = place
        self._root = root
        self._weights: dict[Expr, str | None] = {e: x.weight for e, x in known.items()}
        self._loaded: dict[str, str] = {}

    def element(self, expr: Expr) -> Element:
        """An expression with its weight."""
        return Element(self.value(expr), self.weight(expr))

    def _written(self, expr: Expr) -> Emitted:
        if isinstance(expr, Apply) and isinstance(expr.op, Weigh):
            return self.value(expr.args[0])
        return self._filled(expr) if is_node(expr) else super()._written(expr)

    def _inside(self, expr: Expr) -> str:
        """The mask of places that a value has."""
        if expr is self._root:
            return "live"
        return f"live & ({self._place} < {self.writer.count(expr)})"

    def _read(self, expr: Expr, word: int, to: str, after: int = 0) -> str:
        pointer = self.writer.pointer(expr, word, to)
        place = f"{self._place} + {after}" if after else self._place
        return self.code.let(f"tl.load({pointer} + {place}, mask={self._inside(expr)}, other=0)")

    def _load(self, name: str) -> Emitted:
        field, dtype = Field(name), self.writer.plan.dtypes[name]
        if dtype == "string":
            start, end = (self._read(field, w.DATA, "tl.int64", after) for after in (0, 1))
            return Text(start, self.code.let(f"{end} - {start}"), self.writer.pointer(field, w.TEXT, "tl.uint64"))
        loaded = self._read(field, w.DATA, STORED[dtype])
        if dtype in ("int32", "bool"):
            truth = f"({loaded} != 0)" if dtype == "bool" else loaded  # bytes that were no bool may be seen as such
            loaded = self.code.let(f"{truth}.to(tl.int64)")
        return Number(loaded, self.writer.plan.traits(field).elements)

    def _filled(self, node: Expr) -> Emitted:
        dtype = self.writer.plan.traits(node).dtype
        if dtype == "string":
            start, length = self._read(node, w.DATA, "tl.int64"), self._read(node, w.TEXT, "tl.int64")
            return Text(start, length, self.code.pointer(0, "tl.uint64"))
        return Number(self._read(node, w.DATA, STORED[dtype]), self.writer.plan.traits(node).elements)

    def weight(self, expr: Expr) -> str | None:
        """The variable that holds an expression's weight; None: it has none."""
        if expr not in self._weights:
            self._weights[expr] = self._weight(expr)
        return self._weights[expr]

    def _weight(self, expr: Expr) -> str | None:
        if isinstance(expr, Field) or is_node(expr):
            if not self.writer.plan.traits(expr).weighted:
                return None
            return self._read(expr, w.WEIGHTS, "tl.float32")
        assert isinstance(expr, Apply)
        below = self.weight(expr.args[0])
        if not isinstance(expr.op, Weigh):
            return below
        factor = self.number(expr.args[1])
        by = f"tl.where({factor.name}, 1.0, 0.0)" if factor.dtype == "bool" else factor.name
        return self.code.let(by if below is None else f"{below} * {by}")
