"""`transpose`: the dims in another order."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.facts import Facts, Packed
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import flat, grid, kept, one
from colonnade.ops.graph._values import array, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Transpose(GraphOp):
    """`out` has dim `perm[k]` of x as its dim k.

    Facts: the identity keeps everything; a matrix flips the axis of its stack.
    """

    def infer(self, *args: Facts) -> Inferred:
        """Content, range and the stack are kept."""
        x, perm = args
        order = perm.ints
        if x.shape is None:
            return one(facts.facts(x.dtype, None, lo=x.lo, hi=x.hi))
        if order is None:
            return one(facts.facts(x.dtype, tuple(map(fresh, range(len(x.shape)))), lo=x.lo, hi=x.hi))
        order = _checked(order, len(x.shape), ShapeError)
        if order == tuple(range(len(order))):
            return one(x)
        shape = tuple(x.shape[k] for k in order)
        packed = Packed(1 - x.packed.axis, x.packed.parts) if x.packed is not None and len(order) == 2 else None
        if sum(d != 1 for d in x.shape) <= 1:
            return one(kept(x, shape).but(packed=packed))
        known = grid(x)
        content = None if known is None else flat(known.transpose(order))
        return one(facts.facts(x.dtype, shape, lo=x.lo, hi=x.hi, content=content, packed=packed))

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        x, perm = args
        source = array(x)
        return like(x, source.transpose(_checked(tuple(integers(perm)), source.ndim, GraphError)))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.permute."""
        x, perm = args
        return None if perm.facts.ints is None else Lowered("aten.permute.default", (x.value, perm.facts.ints))


def _checked(order: tuple[int, ...], rank: int, kind: type[GraphError] | type[ShapeError]) -> tuple[int, ...]:
    inside = all(-rank <= k < rank for k in order)
    positive = tuple(k % rank for k in order) if inside else order
    if sorted(positive) != list(range(rank)):
        raise kind("transpose by what is no permutation", got=str(order), want=f"0 .. {rank - 1} in any order")
    return positive
