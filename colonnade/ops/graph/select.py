"""`select`: one of two tensors, element by element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import check_broadcast
from colonnade.ops.graph._facts import Equal, broadcast, flat, grid, hull, one, want_dtype, want_same_dtype
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Select(GraphOp):
    """`out = yes where cond else no`, with broadcasting.

    v1: nothing broadcasts: yes and no are of one shape, cond of that shape too, or a scalar, or a vector over the rows.
    """

    v1: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """The chosen operand's facts where cond is proven; else the hull of both ranges."""
        cond, yes, no = args
        want_dtype("select", cond, ("bool",), "cond")
        dtype = want_same_dtype("select", (yes, no))
        shape, equal = self._shape(cond, yes, no)
        chosen = yes if cond.lo == 1 else no if cond.hi == 0 else None
        if chosen is not None and chosen.shape == shape:
            return one(chosen, equal)
        lo, hi = hull((yes, no) if chosen is None else (chosen,))
        return one(facts.facts(dtype, shape, lo=lo, hi=hi, content=_content(cond, yes, no)), equal)

    def _shape(self, cond: Facts, yes: Facts, no: Facts) -> tuple[facts.Shape | None, Equal]:
        if not self.v1:
            return broadcast("select", cond.shape, yes.shape, no.shape)
        equal: list[tuple[Dim, Dim]] = []
        shape = yes.shape if yes.shape is not None else no.shape
        if shape is None:
            return None, ()
        for other in (yes.shape, no.shape):
            if other is not None:
                equal.extend(_equal(shape, other))
        if cond.shape is not None and not (cond.shape == () or (len(cond.shape) == 1 and len(shape) > 1)):
            equal.extend(_equal(shape, cond.shape))
        elif cond.shape:
            equal.extend(_equal(shape[:1], cond.shape))
        return tuple(a if isinstance(a, int) else _known(a, equal) for a in shape), tuple(equal)

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        cond, yes, no = (array(v) for v in args)
        if self.v1:
            cond = _rows(cond, yes, no)
        check_broadcast("select", cond, yes, no)
        return like(args[1], np.where(cond, yes, no))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.where; a v1 vector over rows gets dims of 1 behind it."""
        cond, yes, no = args
        if yes.facts.dtype == "string" or (self.v1 and None in (cond.facts.rank, yes.facts.rank)):
            return None
        test = cond.value
        if self.v1 and cond.facts.rank == 1:
            for _ in range((yes.facts.rank or 0) - 1):
                test = Lowered("aten.unsqueeze.default", (test, -1))
        return Lowered("aten.where.self", (test, yes.value, no.value))


def _equal(a: facts.Shape, b: facts.Shape) -> Equal:
    """Pairs that must be equal. Errors: ShapeError where they cannot be."""
    if len(a) != len(b) or any(isinstance(p, int) and isinstance(q, int) and p != q for p, q in zip(a, b, strict=True)):
        raise ShapeError("select: shapes that differ", got=f"{a} and {b}")
    return tuple(zip(a, b, strict=True))


def _known(d: Dim, equal: list[tuple[Dim, Dim]]) -> Dim:
    """The number that a dim must equal, where there is one."""
    return next((b for a, b in equal if a == d and isinstance(b, int)), d)


def _rows(cond: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """The condition of a v1 select, one dim for each of the operands'."""
    if yes.shape != no.shape:
        raise GraphError("select: shapes that differ", got=f"{yes.shape} and {no.shape}")
    if cond.ndim == 1 and yes.ndim > 1 and cond.shape[0] == yes.shape[0]:
        return cond.reshape(-1, *(1,) * (yes.ndim - 1))
    if cond.ndim != 0 and cond.shape != yes.shape:
        raise GraphError("select: a condition of another shape", got=f"{cond.shape} for {yes.shape}")
    return cond


def _content(cond: Facts, yes: Facts, no: Facts) -> facts.Content | None:
    """Known elements chosen by known conditions."""
    a, b, c = grid(yes), grid(no), grid(cond)
    if a is None or b is None or c is None or not all(isinstance(v, int) for v in c.flat):
        return None
    try:
        return flat(np.where(c.astype(bool), a, b))
    except ValueError:
        return None
