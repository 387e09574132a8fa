"""`pack`: tensors of one shape stacked along a new dim."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Packed, Shape
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import axis_in, flat, grid, hull, kept, one, want_same_dtype
from colonnade.ops.graph._values import array, axis_of, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Pack(GraphOp):
    """`out[.., k, ..] = operand k`, the new dim at place `axis`, counted in the result.

    Facts: small content is kept; a stack of vectors remembers the facts of each.
    """

    axis: int = 0

    def infer(self, *args: Facts) -> Inferred:
        """Content to content; all shapes must be equal."""
        dtype = want_same_dtype("pack", args)
        lo, hi = hull(args)
        shapes = [f.shape for f in args if f.shape is not None]
        if not shapes:
            return one(facts.facts(dtype, None, lo=lo, hi=hi))
        equal = _same_shape(shapes)
        rank = len(shapes[0])
        axis = axis_in("pack", self.axis, rank + 1)
        shape = (*shapes[0][:axis], len(args), *shapes[0][axis:])
        if len(args) == 1:
            return one(kept(args[0], shape).but(packed=Packed(axis, args) if rank == 1 else None))
        packed = Packed(axis, args) if rank == 1 else None
        grids = [grid(f) for f in args]
        content = None
        if all(g is not None and g.shape == grids[0].shape for g in grids):  # type: ignore[union-attr]
            content = flat(np.stack(grids, axis))  # type: ignore[arg-type]
        return one(facts.facts(dtype, shape, lo=lo, hi=hi, content=content, packed=packed), equal)

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        parts = [array(v) for v in args]
        if any(p.shape != parts[0].shape for p in parts):
            raise GraphError("pack of different shapes", got=", ".join(str(p.shape) for p in parts))
        return like(args[0], np.stack(parts, axis_of("pack", self.axis, parts[0].ndim + 1)))

    def lower(self, *args: Operand) -> Lowered:
        """aten.stack."""
        return Lowered("aten.stack.default", (tuple(a.value for a in args), self.axis))


def _same_shape(shapes: list[Shape]) -> list[tuple[Dim, Dim]]:
    """Pairs of dims that must be equal. Errors: ShapeError where they cannot be."""
    equal = []
    for other in shapes[1:]:
        if len(other) != len(shapes[0]):
            raise ShapeError("pack of different ranks", got=f"{shapes[0]} and {other}")
        for a, b in zip(shapes[0], other, strict=True):
            if isinstance(a, int) and isinstance(b, int) and a != b:
                raise ShapeError("pack of different shapes", got=f"{shapes[0]} and {other}")
            equal.append((a, b))
    return equal
