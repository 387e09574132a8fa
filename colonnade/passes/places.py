"""Some places of each row of a matrix: which ops take them, and what they are called as an input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core.expr import Apply, Expr, Field, walk
from colonnade.ir.graph import Node, args_of, facts_of, item_of, op_of
from colonnade.ops.graph._slicing import Cut, New, Step, Take
from colonnade.ops.graph.gather import Gather
from colonnade.ops.graph.slice import Slice
from colonnade.ops.graph.split import Split
from colonnade.ops.graph.split_v import SplitV
from colonnade.ops.graph.strided_slice import StridedSlice
from colonnade.ops.graph.unpack import Unpack
from colonnade.ops.op import ExpandOp, PositionOp
from colonnade.passes.base import Editor

TAKING = (Gather, Slice, Split, SplitV, StridedSlice, Unpack)
LAST = (1, -1)


@dataclass(frozen=True)
class Places:
    """`matrix[:, start:stop]`."""

    matrix: Node
    start: int
    stop: int

    def field(self, name: str) -> str:
        """What these places of the input `name` are called."""
        return f"{name}.{self.start}" if self.stop - self.start == 1 else f"{name}.{self.start}-{self.stop - 1}"

    def node(self, editor: Editor) -> Node:
        """They, as a new node."""
        begin = editor.constant(np.array([0, self.start], np.int32))
        size = editor.constant(np.array([-1, self.stop - self.start], np.int32))
        return editor.add(Slice(), self.matrix, begin, size)


def places_of(node: Node) -> Places | None:
    """The places that a node holds of each row of a matrix of known width, in order; None where it is another node."""
    base, output = item_of(node)
    op, args = op_of(base), args_of(base)
    matrix = args[1] if isinstance(op, Split) else args[0] if args else node
    shape = facts_of(matrix).shape if isinstance(op, TAKING) else None
    if shape is None or len(shape) != 2 or not isinstance(shape[1], int):
        return None
    found = _range(op, args, output, shape[1])
    if isinstance(op, Slice | StridedSlice):
        found = _of_steps(op.steps(*map(facts_of, args)), shape[0])
    return None if found is None or not 0 <= found[0] < found[1] <= shape[1] else Places(matrix, *found)


def _range(op: object, args: tuple[Node, ...], output: int, width: int) -> tuple[int, int] | None:
    """By an op that names one axis."""
    if isinstance(op, Unpack) and op.axis in LAST:
        return output, output + 1
    if isinstance(op, Split) and facts_of(args[0]).integer in LAST:
        size = width // op.num
        return size * output, size * (output + 1)
    if isinstance(op, SplitV) and facts_of(args[2]).integer in LAST:
        sizes = facts_of(args[1]).ints
        if sizes is not None and -1 not in sizes and sum(sizes) == width:
            return sum(sizes[:output]), sum(sizes[: output + 1])
    if isinstance(op, Gather) and not op.batch_dims and facts_of(args[2]).integer in LAST:
        taken = facts_of(args[1]).ints
        if taken and taken == tuple(range(taken[0], taken[0] + len(taken))):
            return taken[0], taken[-1] + 1
    return None


def _of_steps(steps: list[Step] | None, rows: object) -> tuple[int, int] | None:
    """All rows, and a run of places of each."""
    real = [s for s in steps or () if not isinstance(s, New)]
    if len(real) != 2 or not isinstance(real[0], Cut) or (real[0].begin, real[0].size, real[0].step) != (0, rows, 1):
        return None
    across = real[1]
    if isinstance(across, Take):
        return (across.at, across.at + 1) if isinstance(across.at, int) else None
    assert isinstance(across, Cut)
    if not isinstance(across.begin, int) or not isinstance(across.size, int) or across.step != 1:
        return None
    return across.begin, across.begin + across.size


def of_places(expr: Expr, places: Places) -> Expr | None:
    """The expression over these places of its fields; None where an op looks at the place in a row."""
    if any(isinstance(e, Apply) and isinstance(e.op, PositionOp | ExpandOp) for e in walk(expr)):
        return None
    return _renamed(expr, places)


def _renamed(expr: Expr, places: Places) -> Expr:
    if isinstance(expr, Field):
        return Field(places.field(expr.name))
    assert isinstance(expr, Apply)
    return Apply(expr.op, *(_renamed(arg, places) for arg in expr.args))
