"""One element a batch row: its row of the table, or the default row, or zeros."""

from __future__ import annotations

from colonnade.backends.gpu.kinds.writer import Writer


def write(writer: Writer) -> None:
    """A lookup and a store a target."""
    code, column = writer.code, writer.column
    writer.elements()
    evaluator = writer.evaluator()
    keep = writer.kept(evaluator)
    ids = evaluator.number(column.ids).name
    weight = writer.weight(evaluator, column.weights)
    for target in writer.unit.targets:
        rows = writer.rows_of(target, ids, writer.inside(target, ids, keep))
        if weight is not None:
            rows = code.call(f"weighted_{column.pooling}", rows, weight, file="weights")
        if weight is not None or target.default_row is not None:  # otherwise what is not kept was not loaded: zeros
            other = writer.default_of(target, "e", f"(live & ~{keep})")
            rows = code.let(f"tl.where({keep}[:, None], {rows}, {other})")
        writer.store(target, "e", "0", rows)
