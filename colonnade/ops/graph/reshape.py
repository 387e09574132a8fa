"""`reshape`: the same elements in another shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.expr import Expr
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import kept, one, positive, want_rank
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Reshape(GraphOp):
    """`out = x` in the shape that the second operand holds; one -1 in it stands for what is left.

    Facts: -1 is solved symbolically, so that a batch of 0 rows needs no special case. TensorFlow answers differently
    where an asked dim and the one solved for are both unknown and both 0; the result is empty either way.
    """

    def infer(self, *args: facts.Facts) -> Inferred:
        """Content to shape; the flat content is kept."""
        x, wanted = args
        want_rank("reshape", wanted, 1, "the shape")
        shape = _shape_from(wanted)
        if shape is None:
            return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi))
        solved = _solve(shape, x.size)
        equal = ((x.size, dims.prod(solved)),) if x.size is not None else ()
        if equal and all(isinstance(d, int) for d in equal[0]) and equal[0][0] != equal[0][1]:
            raise ShapeError("reshape to another number of elements", got=f"{x.shape} -> {shape}")
        return one(kept(x, solved), equal)

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        x, wanted = args
        source, shape = array(x), integers(wanted)
        free = [k for k, d in enumerate(shape) if d == -1]
        if len(free) > 1 or min(shape, default=0) < -1:
            raise GraphError("reshape to a shape it cannot take", got=str(shape), want="sizes, and at most one -1")
        if free:
            shape[free[0]] = _left(source.shape, shape)
        if math.prod(shape) != source.size:
            raise GraphError("reshape to another number of elements", got=f"{source.shape} -> {integers(wanted)}")
        return like(x, source.reshape(shape))

    def elementwise(self, *args: Expr) -> Expr | None:
        """The operand: no element changes or moves."""
        return args[0]

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.reshape with every dim known."""
        x, _ = args
        made = self.infer(*(a.facts for a in args)).outputs[0].shape
        if made is None or any(map(dims.from_data, made)):
            return None
        return Lowered("aten.reshape.default", (x.value, made))


def _left(source: tuple[int, ...], shape: list[int]) -> int:
    """What -1 stands for; where a 0 is asked for, TensorFlow leaves zeros on both sides out of the division."""
    asked = [d for d in shape if d not in (-1, 0)]
    held = [d for d in source if d != 0] if 0 in shape else list(source)
    return math.prod(held) // math.prod(asked)


def _shape_from(wanted: facts.Facts) -> tuple[Dim, ...] | None:
    """The shape a vector holds; an unknown vector of known length gives dims that only the data decide."""
    if wanted.values is not None:
        if sum(d == -1 for d in wanted.values) > 1:
            raise ShapeError("reshape with more than one -1", got=str(wanted.values))
        return wanted.values
    if wanted.shape is None or not isinstance(wanted.shape[0], int):
        return None
    return tuple(fresh(k) for k in range(wanted.shape[0]))


def _solve(shape: tuple[Dim, ...], size: Dim | None) -> tuple[Dim, ...]:
    if -1 not in shape:
        return shape
    at = shape.index(-1)
    others = dims.prod(d for d in shape if d != -1)
    left = dims.div_exact(size, others) if size is not None and others != 0 and size != 0 else None
    if left is None:
        left = dims.floor_divide(size, others) if size is not None and positive(others) else fresh(0)
    return (*shape[:at], left, *shape[at + 1 :])
