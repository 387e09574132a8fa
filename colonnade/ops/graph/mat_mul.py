"""`mat_mul`: the matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import one, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, structural


@dataclass(frozen=True)
class MatMul(GraphOp):
    """`out = a @ b` of matrices, each transposed first where asked."""

    transpose_a: bool = structural(default=False)
    transpose_b: bool = structural(default=False)

    def infer(self, *args: Facts) -> Inferred:
        """Rows of a, columns of b; the inner dims must be equal."""
        a, b = args
        dtype = want_same_dtype("mat_mul", args)
        want_dtype("mat_mul", a, NUMBERS)
        for f in args:
            want_rank("mat_mul", f, 2)
        if a.shape is None or b.shape is None:
            return one(facts.facts(dtype, None))
        rows, inner_a = a.shape[::-1] if self.transpose_a else a.shape
        inner_b, columns = b.shape[::-1] if self.transpose_b else b.shape
        if isinstance(inner_a, int) and isinstance(inner_b, int) and inner_a != inner_b:
            raise ShapeError("mat_mul: inner dims differ", got=f"{a.shape} and {b.shape}")
        return one(facts.facts(dtype, (rows, columns)), ((inner_a, inner_b),))

    def reference(self, *args: Value) -> Value:
        """By torch."""
        a, b = (numbers(v, "mat_mul") for v in args)
        if a.ndim != 2 or b.ndim != 2:
            raise GraphError("mat_mul of what is no matrix", got=f"{tuple(a.shape)} and {tuple(b.shape)}")
        left, right = a.T if self.transpose_a else a, b.T if self.transpose_b else b
        if left.shape[1] != right.shape[0]:
            raise GraphError("mat_mul: inner dims differ", got=f"{tuple(a.shape)} and {tuple(b.shape)}")
        return left @ right

    def lower(self, *args: Operand) -> Lowered:
        """aten.mm; aten.linear where b is transposed."""
        a, b = args
        left: Any = a.value
        if self.transpose_a:
            left = Lowered("aten.t.default", (left,))
        return Lowered("aten.linear.default" if self.transpose_b else "aten.mm.default", (left, b.value))
