"""Columns without pooling: every element's row in a place of its own; zeros where a filter drops one."""

from __future__ import annotations

from colonnade.backends.gpu.kinds.writer import Writer


def write(writer: Writer) -> None:
    """A lookup and a store a target."""
    code, column = writer.code, writer.column
    width = writer.elements()
    evaluator = writer.evaluator()
    keep = writer.kept(evaluator)
    ids = evaluator.number(column.ids).name
    weight = writer.weight(evaluator, column.weights)
    row, place = writer.row_and_place(width)
    for target in writer.unit.targets:
        rows = writer.rows_of(target, ids, writer.inside(target, ids, keep))
        if weight is not None:
            rows = code.let(f"tl.where({keep}[:, None], {rows} * {weight}[:, None], 0.0)")
        _, row_dim = writer.dims_of(target)
        writer.store(target, row, f"{place} * {row_dim}", rows)
