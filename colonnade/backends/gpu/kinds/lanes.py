"""Pooled columns of few elements a batch row, or of tokens: a batch row a lane, its elements one after the other."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Evaluator, Text
from colonnade.backends.gpu.kinds.sums import Sums
from colonnade.backends.gpu.kinds.writer import Writer
from colonnade.backends.gpu.ops.not_equal import words_of
from colonnade.backends.gpu.units import expansion_of
from colonnade.core.expr import Apply
from colonnade.ops.split import Split


def write(writer: Writer) -> None:
    """A loop over the elements of all lanes' rows at once, as long as the longest."""
    code = writer.code
    code.line(f"row = tile * {writer.rows} + tl.arange(0, {writer.rows})")
    code.line("is_row = row < rows")
    _bounds(writer)
    sums = Sums(writer, writer.rows, across=False)
    sums.begin()
    code.line("e = begin")
    code.used.add("text")
    expansion = expansion_of(writer.column.ids)
    with code.block("while any_lane(e < finish):"):
        code.line("live = e < finish")
        if expansion is None:
            evaluator = writer.evaluator()
            sums.add(evaluator, writer.kept(evaluator))
        else:
            _tokens(writer, expansion, sums)
        code.line("e += 1")
    sums.finish("row", "is_row")


def _bounds(writer: Writer) -> None:
    """Sets `begin` and `finish`, the places of each row's elements."""
    code = writer.code
    if writer.unit.offsets is None:
        width = code.parameter(writer.unit.width)
        code.line(f"begin = row * {width}.to(tl.int32)")
        code.line(f"finish = tl.where(is_row, begin + {width}.to(tl.int32), begin)")
        return
    offsets = writer.header_pointer(writer.places.words[writer.unit.offsets], "tl.int64")
    code.line(f"begin = tl.load({offsets} + row, mask=is_row, other=0)")
    code.line(f"finish = tl.load({offsets} + row + 1, mask=is_row, other=0)")


def _tokens(writer: Writer, expansion: Apply, sums: Sums) -> None:
    """A loop over the tokens of the strings, those of all lanes at once."""
    code, op = writer.code, expansion.op
    assert isinstance(op, Split)
    evaluator = writer.evaluator()
    text = evaluator.value(expansion.args[0])
    assert isinstance(text, Text)
    for predicate in writer.column.filters:
        if expansion_of(predicate) is None:
            code.line(f"live = live & ({evaluator.number(predicate).name})")
    if writer.column.weights is not None:
        evaluator.number(writer.column.weights)  # before the loop: a string's tokens have one weight
    code.line(f"at = {text.start}")
    code.line(f"end = {text.start} + {text.length}")
    find, length = finder(code, op, text.data)
    with code.block("while any_lane(live):"):
        code.line(f"stop = {find}")
        token = Text("at", "(stop - at)", text.data)
        inner = Evaluator(code, writer.field, {**evaluator.done, expansion: token})
        sums.add(inner, writer.kept(inner))
        code.line("live = live & (stop < end)")
        code.line(f"at = tl.where(live, stop + {length}, at)")


def finder(code: Code, op: Split, data: str) -> tuple[str, str]:
    """The search for the next separator in [`at`, `end`) of the lanes that are `live`, and its length."""
    if len(op.separator) == 1:
        return f"find_byte({data}, at, end, {code.parameter(op.separator[0])}.to(tl.int32), live)", "1"
    separator, length = code.constant(words_of(op.separator)), code.parameter(len(op.separator))
    return f"find_bytes({data}, at, end, {separator}, {length}, live)", length
