"""The units of a transform: what each computes for one tile of its places.

A unit of `fill` or `write` is *kept*: it goes over the elements of a field or of a filled node, over those that a
filter keeps or a string is split into, over the places of cut rows or of choices, or over one operand of a
combination.

Legend: as in `writer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from colonnade.backends.gpu.emit import Emitted, Memory, Number, Text
from colonnade.backends.gpu.kinds.lanes import finder
from colonnade.backends.gpu.ops.not_equal import words_of
from colonnade.backends.gpu.transform import words as w
from colonnade.backends.gpu.transform.plan import Output, Plan, is_node, lists_truncated, root_of, within
from colonnade.backends.gpu.transform.writer import Element, Elements, Writer
from colonnade.core.expr import Apply, Expr, Field
from colonnade.ops.op import ElementFacts
from colonnade.ops.split import Split
from colonnade.ops.truncate import Truncate

ITEMS = 1024
"""Places of a tile."""
CHECK_ITEMS = 4096
"""Offsets that one program checks, in steps of ITEMS."""
TEXT_ITEMS = 128
"""The same where strings are read, or digits made: that takes the registers of a thread for each."""
SCAN_ITEMS = 1024
"""Rows of a step of the programs that go over all of them."""
CHOICE_ITEMS = 512
"""The same of choices: each reads an element of every operand."""
HEAVY = ("hash_decimal", "sip_decimal")

COUNTS, BAG_ENDS, ROW_ENDS, ONE = "counts", "bag ends", "row ends", "one"
"""What tiles are cut from: a value's elements, its rows or lists and one more, batch rows and one more, nothing."""


@dataclass(frozen=True)
class Extent:
    """What a unit's tiles are cut from, and how many places a tile has."""

    what: str
    value: Expr | None
    items: int


@dataclass(frozen=True)
class Unit:
    """A unit's lines, the device files that they use, its words (and which are references), and its extent."""

    body: str
    used: frozenset[str]
    words: tuple[int, ...]
    references: tuple[int, ...]
    extent: Extent


Body = Callable[[Writer, Mapping[Expr, Element], str], None]
"""Writes what becomes of an element, given what is known of nodes and the variable that holds its place."""


def items_of(plan: Plan, *exprs: Expr) -> int:
    """Places of a tile that computes expressions."""
    for expr in (e for root in exprs for e in within(root)):
        if plan.traits(expr).dtype == "string" or (isinstance(expr, Apply) and expr.op.name in HEAVY):
            return TEXT_ITEMS
    return ITEMS


def items_counted(plan: Plan, node: Expr) -> int:
    """Places of a tile that counts what comes of each element."""
    assert isinstance(node, Apply)
    return items_of(plan, *node.args)


def made(writer: Writer, what: str, value: Expr | None, items: int) -> Unit:
    """The unit that was written."""
    code = writer.code
    return Unit(
        code.text, frozenset(code.used), tuple(code.words), tuple(writer.references), Extent(what, value, items)
    )


# --- write and fill -------------------------------------------------------------------------------------------------
def outputs(plan: Plan, output: Output, memory: Memory) -> list[Unit]:
    """The units that write a feature."""
    root = root_of(output.expr)

    def put(writer: Writer, made: Mapping[Expr, Element], place: str) -> None:
        found = Elements(writer, place, root, made)
        weight = found.weight(output.expr) if output.own_weights else None
        writer.put(output, Element(found.value(output.expr), weight), place)

    return _over(plan, root, output.expr, put, memory, is_filled=root in plan.filled)


def fills(plan: Plan, node: Expr, memory: Memory) -> list[Unit]:
    """The units that fill a node."""

    def fill(writer: Writer, made: Mapping[Expr, Element], place: str) -> None:
        writer.fill(node, made[node], place)

    return _over(plan, node, node, fill, memory, is_filled=False)


def _over(plan: Plan, root: Expr, expr: Expr, body: Body, memory: Memory, *, is_filled: bool) -> list[Unit]:
    """The units that go over all elements of a root."""
    if not is_node(root) or is_filled:
        return [_plain(plan, root, expr, body, memory)]
    assert isinstance(root, Apply)
    name = root.op.name
    if name == "combine":
        return [_operand(plan, root, k, expr, body, memory) for k in range(len(root.args))]
    write = {"keep": _kept, "split": _tokens, "truncate": _cut, "cross": _choices}[name]
    return [write(plan, root, expr, body, memory)]


def _plain(plan: Plan, root: Expr, expr: Expr, body: Body, memory: Memory) -> Unit:
    writer, items = Writer(plan, memory), items_of(plan, expr)
    writer.lanes("j", writer.count(root), items)
    body(writer, {}, "j")
    return made(writer, COUNTS, root, items)


def _kept(plan: Plan, node: Apply, expr: Expr, body: Body, memory: Memory) -> Unit:
    x = node.args[0]
    source, counted = root_of(x), items_counted(plan, node)
    writer, items = Writer(plan, memory), min(counted, items_of(plan, expr, x))
    _marked(writer, node, source, items, counted)
    # The last of these holds of whatever `scan` left there: nothing is written outside the node's memory.
    writer.code.line(f"live = live & ((mark & 1) != 0) & (j >= 0) & (j < {writer.count(node)})")
    body(writer, {node: Elements(writer, "e", source).element(x)}, "j")
    return made(writer, COUNTS, source, items)


def _marked(writer: Writer, node: Expr, source: Expr, items: int, counted: int) -> None:
    """Sets `e`, `live`, `mark`, and `j`, the place of the first that comes of each element."""
    code = writer.code
    writer.lanes("e", writer.count(source), items)
    code.line(f"mark = tl.load({writer.pointer(node, w.MARKS, 'tl.int32')} + e, mask=live, other=0)")
    before = f"tl.load({writer.pointer(node, w.TILES, 'tl.int32')} + tile * {items} // {counted})"
    code.line(f"j = {before} + (mark >> 1)")


def _tokens(plan: Plan, node: Apply, expr: Expr, body: Body, memory: Memory) -> Unit:
    x = node.args[0]
    source, writer, counted = root_of(x), Writer(plan, memory), items_counted(plan, node)
    code = writer.code
    _marked(writer, node, source, counted, counted)
    element = Elements(writer, "e", source).element(x)
    assert isinstance(element.value, Text)
    find, width = _begin_tokens(writer, node.op, element.value)
    with code.block("while any_lane(live):"):
        code.line(f"stop = {find}")
        code.line("going = live")
        code.line(f"live = live & (j >= 0) & (j < {writer.count(node)})")
        token = Element(Text("at", "(stop - at)", element.value.data), element.weight)
        body(writer, {node: token}, "j")
        code.line("j += 1")
        code.line("live = going & (stop < end)")
        code.line(f"at = tl.where(live, stop + {width}, at)")
    return made(writer, COUNTS, source, counted)


def _begin_tokens(writer: Writer, op: Split, text: Text) -> tuple[str, str]:
    """Sets `at` and `end` of each string; gives the search for the next separator, and its length."""
    code = writer.code
    code.used.add("text")
    code.line(f"at = {text.start}")
    code.line(f"end = {text.start} + {text.length}")
    return finder(code, op, text.data)


def _cut(plan: Plan, node: Apply, expr: Expr, body: Body, memory: Memory) -> Unit:
    x, op = node.args[0], node.op
    assert isinstance(op, Truncate)
    source, items = root_of(x), items_of(plan, expr, x)
    writer = Writer(plan, memory)
    code = writer.code
    with code.block(f"if tile * {items} < {writer.count(node)}:"):
        writer.lanes("j", writer.count(node), items)
        fills = op.padded and plan.traits(node).levels == 1
        if fills:
            code.line(f"row = j // tl.maximum({code.parameter(op.length)}, 1).to(tl.int32)")
        else:
            _rows_of_tile(writer, node, items)
        shifts = writer.pointer(node, w.SHIFTS, "tl.int32")
        code.line(f"p = j + tl.load({shifts} + row, mask=live, other=0)")
        code.line("all_live = live")
        if fills:
            code.line(f"live = live & (p < tl.load({writer.inner(source)} + row + 1, mask=live, other=0))")
        code.line(f"live = live & (p >= 0) & (p < {writer.count(source)})")
        element = Elements(writer, "p", source).element(x)
        code.line("found = live")
        code.line("live = all_live")
        body(writer, {node: _filled_up(writer, node, element) if fills else element}, "j")
    return made(writer, COUNTS, node, items)


def _rows_of_tile(writer: Writer, node: Expr, items: int) -> str:
    """Sets `row`, in which each place of the tile lies; gives the pointer to where rows begin."""
    starts = writer.pointer(node, w.STARTS, "tl.int32")
    writer.code.used.add("ragged")
    writer.code.line(f"row = rows_of_tile({starts}, {writer.bags(node)}, tile * {items}, {items})")
    return starts


def _filled_up(writer: Writer, node: Apply, element: Element) -> Element:
    """The fill, of weight 0, where there is no element."""
    code, value, op = writer.code, element.value, node.op
    weight = None if element.weight is None else code.let(f"tl.where(found, {element.weight}, 0.0)")
    if isinstance(value, Text):
        assert isinstance(op.fill, bytes)
        fill, length = code.pointer(code.address(words_of(op.fill)), "tl.uint64"), code.parameter(len(op.fill))
        start = code.let(f"{value.data}.to(tl.int64) + {value.start}")
        start = code.let(f"tl.where(found, {start}, {fill}.to(tl.int64))")
        return Element(
            Text(start, code.let(f"tl.where(found, {value.length}, {length})"), code.pointer(0, "tl.uint64")), weight
        )
    if value.dtype in ("float32", "float64"):
        fill = code.once(f"tl.load({code.constant(np.array([op.fill], value.dtype))})")
    else:
        fill = f"{code.parameter(int(op.fill))}.to(tl.{value.dtype})"
    made = code.let(f"tl.where(found, {value.name}, {fill})")
    return Element(Number(made, writer.plan.traits(node).elements), weight)


def _choices(plan: Plan, node: Apply, expr: Expr, body: Body, memory: Memory) -> Unit:
    items = min(CHOICE_ITEMS, items_of(plan, expr, *node.args))
    writer = Writer(plan, memory)
    code = writer.code
    with code.block(f"if tile * {items} < {writer.count(node)}:"):
        writer.lanes("j", writer.count(node), items)
        starts = _rows_of_tile(writer, node, items)
        code.line(f"choice = j - tl.load({starts} + row, mask=live, other=0)")
        code.line("all_live = live")
        found: list[Element] = []
        for k, x in reversed(list(enumerate(node.args))):
            source = root_of(x)
            begin = code.let(f"tl.load({writer.inner(source)} + row, mask=all_live, other=0).to(tl.int32)")
            place = "choice"
            if k > 0:
                end = code.let(f"tl.load({writer.inner(source)} + row + 1, mask=all_live, other=1)")
                length = code.let(f"tl.maximum(({end} - {begin}).to(tl.int32), 1)")
                place = code.let(f"choice % {length}")
                code.line(f"choice = choice // {length}")
            place = code.let(f"{begin} + {place}")
            code.line(f"live = all_live & ({place} >= 0) & ({place} < {writer.count(source)})")
            found.insert(0, Elements(writer, place, source).element(x))
        code.line("live = all_live")
        body(writer, {node: _crossed(writer, found)}, "j")
    return made(writer, COUNTS, node, items)


def _crossed(writer: Writer, elements: list[Element]) -> Element:
    """The hash of all elements' words, and the product of their weights."""
    code = writer.code
    code.used.add("murmur")
    state = ""
    for element in elements:
        assert isinstance(element.value, Number)
        word = code.let(f"{element.value.name}.to(tl.int64).to(tl.uint64, bitcast=True)")
        state = state or code.let(f"murmur_begun({word}, {len(elements)})")
        state = code.let(f"murmur_more({state}, {word})")
    weights = [x.weight for x in elements if x.weight is not None]
    hashed: Emitted = Number(code.let(f"murmur_ended({state})"), ElementFacts("int64"))
    return Element(hashed, code.let(" * ".join(weights)) if weights else None)


def _operand(plan: Plan, node: Apply, k: int, expr: Expr, body: Body, memory: Memory) -> Unit:
    x = node.args[k]
    source, items = root_of(x), items_of(plan, expr, x)
    writer = Writer(plan, memory)
    code = writer.code
    writer.lanes("e", writer.count(source), items)
    code.line(f"row = {writer.row_of(writer.inner(source), writer.bags(node), 'e')}")
    first = f"{code.parameter(k)} * {writer.rows()}"
    shifts = writer.pointer(node, w.SHIFTS, "tl.int32")
    code.line(f"j = e + tl.load({shifts} + {first} + row, mask=live, other=0)")
    code.line(f"live = live & (j >= 0) & (j < {writer.count(node)})")
    element = Elements(writer, "e", source).element(x)
    if element.weight is None and plan.traits(node).weighted:
        element = Element(element.value, code.let("tl.where(live, 1.0, 1.0)"))
    body(writer, {node: element}, "j")
    return made(writer, COUNTS, source, items)


# --- scan -----------------------------------------------------------------------------------------------------------
def scan(plan: Plan, node: Apply, memory: Memory) -> Unit:
    """Where the rows of a node begin, and where their elements come from.

    Facts: of `keep` and `split`, each tile of their operand is counted first; the last to arrive goes over all rows. Of
    any other node one program does.
    """
    writer = Writer(plan, memory)
    writer.code.used.add("ragged")
    if node.op.name in ("keep", "split"):
        return _counted(writer, node)
    if lists_truncated(node, plan.traits):
        _scan_lists(writer, node)
    elif isinstance(node.op, Truncate):
        _scan_cut(writer, node)
    else:
        _scan_operands(writer, node)
    return made(writer, ONE, None, 1)


def _counted(writer: Writer, node: Apply) -> Unit:
    """Counts what comes of each element: one or none by a predicate, or the tokens of a string."""
    plan, code = writer.plan, writer.code
    source, items = root_of(node.args[0]), items_counted(plan, node)
    writer.lanes("e", writer.count(source), items)
    elements = Elements(writer, "e", source)
    if isinstance(node.op, Split):
        text = elements.value(node.args[0])
        assert isinstance(text, Text)
        find, width = _begin_tokens(writer, node.op, text)
        code.line("inside = live")
        code.line("come = live.to(tl.int32)")
        with code.block("while any_lane(live):"):
            code.line(f"stop = {find}")
            code.line("live = live & (stop < end)")
            code.line("come += live.to(tl.int32)")
            code.line(f"at = tl.where(live, stop + {width}, at)")
        code.line("live = inside")
    else:
        code.line(f"come = (live & ({elements.number(node.args[1]).name})).to(tl.int32)")
    marks, tiles = writer.pointer(node, w.MARKS, "tl.int32"), writer.pointer(node, w.TILES, "tl.int32")
    code.line("mark = (running_sum(come) - come) * 2 + (come > 0).to(tl.int32)")
    code.line(f"tl.store({marks} + e, mark, mask=live)")
    code.line(f"tl.store({tiles} + tile, sum_of(come))")
    code.line("tl.debug_barrier()")
    arrivals = f"(work.to(tl.int64) + {code.parameter(writer.arrivals_place(node))}).to(tl.pointer_type(tl.int32))"
    arrivals = code.once(arrivals, "a")
    most = f"(tl.maximum({writer.word(source, w.COUNT)}, 1) + {items - 1}) // {items}"
    with code.block(f"if tl.atomic_add({arrivals}, 1) == {most} - 1:"):
        code.line("tl.debug_barrier()")
        size = f"out + {code.parameter(writer.size_place(node))}"
        rows = f"{writer.inner(source)}, {writer.inner(node)}, {size}, {writer.count(source)}, {writer.bags(node)}"
        code.line(f"scan_counted({tiles}, {marks}, {rows}, {items}, {SCAN_ITEMS})")
        code.line(f"tl.store({arrivals}, 0)")
    return made(writer, COUNTS, source, items)


class _Loop:
    """Steps of SCAN_ITEMS over `num` places `b`, of which each adds `size` to `total`."""

    def __init__(self, writer: Writer, num: str) -> None:
        self.code = writer.code
        self.code.line(f"num = {num}")
        self.code.line("total = num * 0")
        self.code.line("at = num * 0")

    def run(self, size: Callable[[], str], store: Callable[[], None]) -> None:
        """size: gives each place's; store: what is done with `before`, the sum of all before a place."""
        with self.code.block("while at < num:"):
            self.code.line(f"b = at + tl.arange(0, {SCAN_ITEMS})")
            self.code.line("inside = b < num")
            self.code.line(f"size = tl.where(inside, {size()}, 0)")
            self.code.line("before = total + running_sum(size) - size")
            store()
            self.code.line("total += sum_of(size)")
            self.code.line(f"at += {SCAN_ITEMS}")


def _stores_of(writer: Writer, offsets: str, starts: str = "") -> Callable[[], None]:
    def store() -> None:
        writer.code.line(f"tl.store({offsets} + b + 1, before + size, mask=inside)")
        if starts:
            writer.code.line(f"tl.store({starts} + b, before.to(tl.int32), mask=inside)")

    return store


def _sizes(writer: Writer, node: Expr, total: str) -> None:
    """The node's number of elements, for the launches that follow."""
    writer.code.line(f"tl.store(out + {writer.code.parameter(writer.size_place(node))}, {total})")


def _cut_row(writer: Writer, op: Truncate, offsets: str, most: str) -> str:
    """Sets `first` and `have` of each row `b`: where what is kept begins, how many are kept; gives the size."""
    code, length = writer.code, writer.code.parameter(op.length)
    code.line(f"begin, end, have = length_of({offsets}, b, {most}, inside)")
    code.line(f"have = tl.minimum(have, {length})")
    code.line(f"first = {'end - have' if op.side == 'last' else 'begin'}")
    return length if op.padded else "have"


def _scan_cut(writer: Writer, node: Apply) -> None:
    code, source, op = writer.code, root_of(node.args[0]), node.op
    offsets, shifts = writer.inner(node), writer.pointer(node, w.SHIFTS, "tl.int32")
    loop = _Loop(writer, writer.rows())
    code.line(f"tl.store({offsets}, total)")

    def store() -> None:
        _stores_of(writer, offsets, writer.pointer(node, w.STARTS, "tl.int32"))()
        code.line(f"tl.store({shifts} + b, (first - before).to(tl.int32), mask=inside)")

    loop.run(lambda: _cut_row(writer, op, writer.inner(source), writer.count(source)), store)
    _sizes(writer, node, "total")


def _scan_lists(writer: Writer, node: Apply) -> None:
    """The lists that are kept, then the elements in them."""
    code, source, op = writer.code, root_of(node.args[0]), node.op
    outer, old, bags = writer.outer(node), writer.outer(source), writer.bags(source)
    inner, elements = writer.inner(node), writer.inner(source)
    loop = _Loop(writer, writer.rows())
    code.line(f"tl.store({outer}, total)")
    loop.run(lambda: _cut_row(writer, op, old, bags), _stores_of(writer, outer))
    code.line(f"tl.store(out + {code.parameter(writer.size_place(node) + 1)}, total)")
    code.line("tl.debug_barrier()")
    rows, most = writer.rows(), writer.word(node, w.BAGS)
    lists = _Loop(writer, f"tl.minimum(total, {most})")
    code.line(f"tl.store({inner}, total)")

    def size() -> str:
        code.line(f"row = row_of_place({outer}, {rows}, b, inside)")
        code.line(f"place = b - tl.load({outer} + row, mask=inside, other=0)")
        code.line("list = b")
        code.line("b = row")
        _cut_row(writer, op, old, bags)
        code.line("b = list")
        code.line("found = inside & (place < have)")
        code.line(f"begin, end, have = length_of({elements}, first + place, {writer.count(source)}, found)")
        return "tl.where(found, have, 0)"

    def store() -> None:
        _stores_of(writer, inner, writer.pointer(node, w.STARTS, "tl.int32"))()
        code.line(
            f"tl.store({writer.pointer(node, w.SHIFTS, 'tl.int32')} + b, (begin - before).to(tl.int32), mask=inside)"
        )

    lists.run(size, store)
    _sizes(writer, node, "total")


MOST_CHOICES = 1 << 31
"""Of a row: more than that are counted as that many."""


def _scan_operands(writer: Writer, node: Apply) -> None:
    code, offsets, chosen = writer.code, writer.inner(node), node.op.name == "cross"
    loop = _Loop(writer, writer.rows())
    code.line(f"tl.store({offsets}, total)")

    def size() -> str:
        for k, x in enumerate(node.args):
            source = root_of(x)
            arguments = f"{writer.inner(source)}, b, {writer.count(source)}, inside"
            code.line(f"begin{k}, end{k}, n{k} = length_of({arguments})")
        if not chosen:
            return " + ".join(f"n{k}" for k in range(len(node.args)))
        code.line("product = n0")
        for k in range(1, len(node.args)):
            code.line(f"product = tl.minimum(product * n{k}, {MOST_CHOICES})")
        return "product"

    def store() -> None:
        _stores_of(writer, offsets, writer.pointer(node, w.STARTS, "tl.int32") if chosen else "")()
        if chosen:
            return
        shifts = writer.pointer(node, w.SHIFTS, "tl.int32")
        for k in range(len(node.args)):
            place = f"{shifts} + {code.parameter(k)} * {writer.rows()} + b"
            code.line(f"tl.store({place}, (before - begin{k}).to(tl.int32), mask=inside)")
            code.line(f"before += n{k}")

    loop.run(size, store)
    _sizes(writer, node, "total")


# --- checks ---------------------------------------------------------------------------------------------------------
def checks(plan: Plan, memory: Memory, widths: dict[str, int | None]) -> list[Unit]:
    """What offsets are checked for: that they rise from 0 to the number of what they count, and agree where they must.

    widths: of fields whose offsets are given, by name; None: rows of any length.
    """
    found: list[Unit] = []
    for field in plan.fields:
        if field.name in widths:
            levels = plan.traits(field).levels
            found += [_rises(plan, field, memory, widths[field.name], is_outer) for is_outer in (False, True)[:levels]]
    for pair in plan.pairs:
        levels = plan.traits(pair.first).levels
        found += [_agree(plan, pair.first, pair.other, memory, is_outer) for is_outer in (False, True)[:levels]]
    return found


def _rises(plan: Plan, field: Field, memory: Memory, width: int | None, is_outer: bool) -> Unit:
    writer = Writer(plan, memory)
    code = writer.code
    num, end = (writer.rows(), writer.bags(field)) if is_outer else (writer.bags(field), writer.count(field))
    offsets = writer.outer(field) if is_outer else writer.inner(field)
    expected = "-1" if width is None else code.parameter(width)
    code.used.add("ragged")
    rows = f"tile.to(tl.int64) * {CHECK_ITEMS}, {num}, {end}, {expected}, {CHECK_ITEMS}, {ITEMS}"
    _flag(writer, f"is_bad({offsets}, {rows})")
    return made(writer, ROW_ENDS if is_outer else BAG_ENDS, field, CHECK_ITEMS)


def _agree(plan: Plan, first: Expr, other: Expr, memory: Memory, is_outer: bool) -> Unit:
    writer = Writer(plan, memory)
    code = writer.code
    nums = (writer.rows(),) * 2 if is_outer else (writer.bags(first), writer.bags(other))
    offsets = [writer.outer(x) if is_outer else writer.inner(x) for x in (first, other)]
    writer.lanes("b", f"{nums[0]} + 1", ITEMS)
    here, there = (
        code.let(f"tl.load({o} + b, mask=live & (b <= {n}), other=0)") for o, n in zip(offsets, nums, strict=True)
    )
    code.line(f"bad = ({here} != {there}) | ({nums[0]} != {nums[1]})")
    code.used.add("text")
    _flag(writer, "any_lane(live & bad)")
    return made(writer, ROW_ENDS if is_outer else BAG_ENDS, first, ITEMS)


def _flag(writer: Writer, bad: str) -> None:
    flags = f"out + {writer.entry(w.FLAGS)} + program"
    writer.code.line(f"tl.store({flags}, ({bad}).to(tl.int64))")
