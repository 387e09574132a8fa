"""`bias_add`: a vector added to the last dim."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import one, want_dtype, want_rank, want_same_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class BiasAdd(GraphOp):
    """`out[.., k] = x[.., k] + bias[k]`; x has at least 2 dims."""

    def infer(self, *args: Facts) -> Inferred:
        """The shape of x is kept; its last dim must be the bias's."""
        x, bias = args
        want_same_dtype("bias_add", args)
        want_dtype("bias_add", x, NUMBERS)
        want_rank("bias_add", bias, 1, "the bias")
        if x.shape is None or bias.shape is None:
            return one(facts.facts(x.dtype, x.shape))
        if len(x.shape) < 2:
            raise ShapeError("bias_add: x has too few dims", got=str(x.shape), want="at least 2")
        last, wanted = x.shape[-1], bias.shape[0]
        if isinstance(last, int) and isinstance(wanted, int) and last != wanted:
            raise ShapeError("bias_add: a bias of another size", got=str(bias.shape), want=f"({last},)")
        return one(
            facts.facts(x.dtype, (*x.shape[:-1], wanted if isinstance(wanted, int) else last)), ((last, wanted),)
        )

    def reference(self, *args: Value) -> Value:
        """By torch."""
        x, bias = (numbers(v, "bias_add") for v in args)
        if x.ndim < 2 or bias.ndim != 1 or x.shape[-1] != bias.shape[0]:
            raise GraphError("bias_add: a bias of another size", got=f"{tuple(bias.shape)} for {tuple(x.shape)}")
        return x + bias

    def lower(self, *args: Operand) -> Lowered:
        """aten.add."""
        x, bias = args
        return Lowered("aten.add.Tensor", (x.value, bias.value))
