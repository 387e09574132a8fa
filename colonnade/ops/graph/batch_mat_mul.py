"""`batch_mat_mul`: matrix products, one for each place of the leading dims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.core import facts
from colonnade.core.facts import Facts, Shape
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import broadcast, one, want_dtype, want_same_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, structural


@dataclass(frozen=True)
class BatchMatMul(GraphOp):
    """`out[.., i, k] = sum over j of a[.., i, j] * b[.., j, k]`; the last two dims are swapped first where asked.

    broadcasts: whether the leading dims broadcast; else they must be equal.
    """

    transpose_a: bool = structural(default=False)
    transpose_b: bool = structural(default=False)
    broadcasts: bool = True

    def infer(self, *args: Facts) -> Inferred:
        """Leading dims broadcast; the inner dims must be equal."""
        a, b = args
        dtype = want_same_dtype("batch_mat_mul", args)
        want_dtype("batch_mat_mul", a, NUMBERS)
        if a.shape is None or b.shape is None:
            return one(facts.facts(dtype, None))
        self._check(a.shape, b.shape, ShapeError)
        (rows, inner_a), (inner_b, columns) = self._matrices(a.shape, b.shape)
        lead, equal = broadcast("batch_mat_mul", a.shape[:-2], b.shape[:-2])
        if not self.broadcasts:
            equal = tuple(zip(a.shape[:-2], b.shape[:-2], strict=True))
        assert lead is not None
        return one(facts.facts(dtype, (*lead, rows, columns)), (*equal, (inner_a, inner_b)))

    def _matrices(self, a: Shape, b: Shape) -> tuple[Shape, Shape]:
        """The last two dims of both as they are multiplied."""
        return a[:-3:-1] if self.transpose_a else a[-2:], b[:-3:-1] if self.transpose_b else b[-2:]

    def _check(self, a: Shape, b: Shape, kind: type[GraphError] | type[ShapeError]) -> None:
        got = f"{a} and {b}"
        if len(a) < 2 or len(b) < 2:
            raise kind("batch_mat_mul of what is no matrix", got=got)
        (_, left), (right, _) = self._matrices(a, b)
        if isinstance(left, int) and isinstance(right, int) and left != right:
            raise kind("batch_mat_mul: inner dims differ", got=got)
        if not self.broadcasts and len(a) != len(b):
            raise kind("batch_mat_mul: leading dims differ", got=got)

    def reference(self, *args: Value) -> Value:
        """By torch."""
        a, b = (numbers(v, "batch_mat_mul") for v in args)
        self._check(tuple(a.shape), tuple(b.shape), GraphError)
        lead = tuple(a.shape[:-2]), tuple(b.shape[:-2])
        if not self.broadcasts and lead[0] != lead[1]:
            raise GraphError("batch_mat_mul: leading dims differ", got=f"{tuple(a.shape)} and {tuple(b.shape)}")
        try:
            return (a.mT if self.transpose_a else a) @ (b.mT if self.transpose_b else b)
        except RuntimeError as error:
            raise GraphError("batch_mat_mul: leading dims differ", got=f"{lead[0]} and {lead[1]}") from error

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.matmul, of operands that are transposed before where asked."""
        a, b = (_flipped(x.value, flip) for x, flip in zip(args, (self.transpose_a, self.transpose_b), strict=True))
        return Lowered("aten.matmul.default", (a, b))


def _flipped(x: Any, flip: bool) -> Any:
    return Lowered("aten.transpose.int", (x, -2, -1)) if flip else x
