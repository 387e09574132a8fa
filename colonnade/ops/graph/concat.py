"""`concat`: tensors put end to end along a dim."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Facts, Shape
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import Equal, axis_in, flat, grid, hull, one, want_same_dtype
from colonnade.ops.graph._values import array, axis_of, integer, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Concat(GraphOp):
    """`out = the operands but the last, one after the other along the axis that the last operand holds`."""

    def infer(self, *args: Facts) -> Inferred:
        """Content of small integer tensors; all other dims must be equal."""
        *parts, axis = args
        dtype = want_same_dtype("concat", parts)
        lo, hi = hull(parts)
        shapes = [f.shape for f in parts if f.shape is not None]
        if len(shapes) != len(parts) or axis.integer is None:
            return one(facts.facts(dtype, None, lo=lo, hi=hi))
        _same_rank(shapes)
        at = axis_in("concat", axis.integer, len(shapes[0]))
        if len(parts) == 1:
            return one(parts[0])
        equal = _others(shapes, at)
        known = [next((s[k] for s in shapes if isinstance(s[k], int)), shapes[0][k]) for k in range(len(shapes[0]))]
        known[at] = dims.add(*(s[at] for s in shapes))
        grids = [grid(f) for f in parts]
        content = None
        if all(g is not None for g in grids):
            content = flat(np.concatenate(grids, at))  # type: ignore[arg-type]
        return one(facts.facts(dtype, tuple(known), lo=lo, hi=hi, content=content), equal)

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        *parts, axis = args
        sources = [array(v) for v in parts]
        at = axis_of("concat", integer(axis), sources[0].ndim)
        rests = {(*s.shape[:at], *s.shape[at + 1 :]) for s in sources}
        if len(rests) != 1:
            raise GraphError("concat of shapes that differ", got=", ".join(str(s.shape) for s in sources))
        return like(parts[0], np.concatenate(sources, at))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.cat."""
        *parts, axis = args
        at = axis.facts.integer
        return None if at is None else Lowered("aten.cat.default", (tuple(p.value for p in parts), at))


def _same_rank(shapes: list[Shape]) -> None:
    if len({len(s) for s in shapes}) != 1:
        raise ShapeError("concat of different ranks", got=", ".join(map(str, shapes)))


def _others(shapes: list[Shape], at: int) -> Equal:
    """Pairs of dims that must be equal. Errors: ShapeError where they cannot be."""
    equal = []
    for k, (operand, other) in ((k, pair) for pair in enumerate(shapes[1:], 1) for k in range(len(shapes[0]))):
        a, b = shapes[0][k], other[k]
        if k == at:
            continue
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise ShapeError(f"concat operand {operand} has another dim {k}", got=str(other), want=str(shapes[0]))
        equal.append((a, b))
    return tuple(equal)
