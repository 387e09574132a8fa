"""Inputs of a program that are made of rows of differing lengths: their names, and what they are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core.consts import Const
from colonnade.ir.decoded import Names
from colonnade.ir.graph import Node, args_of, facts_of, item_of
from colonnade.ops.graph.pad_rows import PadRows
from colonnade.ops.graph.parse_example import ParseExample
from colonnade.ops.graph.placeholder import Placeholder
from colonnade.ops.graph.ragged_input import RaggedInput
from colonnade.ops.graph.row_ends import RowEnds
from colonnade.ops.graph.row_marks import RowMarks

PADDING = (PadRows, RowMarks, RowEnds)


@dataclass(frozen=True)
class Padded:
    """name: of the input.   base: what makes the rows.   of: the field whose rows they are.   what: see `Pad`."""

    name: str
    base: Node
    of: str
    what: str
    fill: Const | None = None


def padded(node: Node, names: Names) -> Padded | None:
    """What a node that pads rows is as an input; None where the rows are no input of a program."""
    op = node.target
    if not isinstance(op, PADDING):
        return None
    indices, shape, *values = args_of(node)
    base, output = item_of(indices)
    value = item_of(values[0]) if values else None
    if not _is_whole(base, output, shape) or (value is not None and value[0] is not base):
        return None
    source = _source(base, None if value is None else value[1], output, names)
    if source is None:
        return None
    width = "" if isinstance(op, RowEnds) or op.width is None else f"[:{op.width}]"
    if isinstance(op, PadRows):
        return Padded(f"{source}.padded{width}{_suffix(op.fill)}", base, source, "values", op.fill)
    what = "marks" if isinstance(op, RowMarks) else "ends"
    return Padded(f"{source}.{what}{width}", base, source, what)


def _is_whole(base: Node, output: int, shape: Node) -> bool:
    """Whether an output of a node is an index matrix that has this dense shape."""
    op, sizes = base.target, facts_of(shape).values
    if isinstance(op, RaggedInput):
        return output == 0 and sizes == base.meta["facts"][-1].values
    if not isinstance(op, ParseExample):
        return False
    feature, what = op.place(output)
    wanted = next(k for k in range(op.num_outputs) if op.place(k) == (feature, "shape")) if what == "indices" else 0
    return what == "indices" and sizes == base.meta["facts"][wanted].values


def _source(base: Node, output: int | None, indices: int, names: Names) -> str | None:
    """The field: the values that are padded, or the first ones of the rows."""
    op = base.target
    if isinstance(op, RaggedInput):
        sources = args_of(base)[op.first_value :]
        source = sources[0 if output is None else output - 1]
        plain = all(isinstance(x.target, Placeholder) for x in args_of(base))
        return source.target.key if plain and isinstance(source.target, Placeholder) else None
    if not isinstance(op, ParseExample):
        return None
    feature, _ = op.place(indices if output is None else output)
    return names.get((base, feature)) if isinstance(args_of(base)[0].target, Placeholder) else None


def _suffix(fill: Const) -> str:
    """Nothing where places are filled with zeros or empty strings."""
    (value,) = fill.array.reshape(-1)
    if fill.array.dtype == object:
        return "" if value == b"" else f"[{fill.digest}]"
    return "" if not value and not np.signbit(value) else f"[{value}]"
