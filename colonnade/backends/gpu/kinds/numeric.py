"""Numeric columns: the values of a field, each in its place; zero where a filter drops it."""

from __future__ import annotations

from colonnade.backends.gpu.kinds.writer import Writer


def write(writer: Writer) -> None:
    """A store a slot."""
    code = writer.code
    width = writer.elements()
    evaluator = writer.evaluator()
    value = code.let(f"{evaluator.number(writer.column.ids).name}.to(tl.float32)")
    if writer.column.filters:
        value = code.let(f"tl.where({writer.kept(evaluator)}, {value}, 0.0)")
    row, place = writer.row_and_place(width)
    for target in writer.unit.targets:
        offset = code.parameter(target.offset)
        to = f"out{target.output} + {row}.to(tl.int64) * stride{target.output} + ({offset} + {place})"
        code.line(f"tl.store({to}, {value}, mask=live)")
