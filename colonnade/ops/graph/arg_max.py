"""`arg_max`: where the largest element of an axis is."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import axis_in, one, want_dtype
from colonnade.ops.graph._values import axis_of, integer, numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, torch_dtype


@dataclass(frozen=True)
class ArgMax(GraphOp):
    """The first position of the largest element along the axis that the second operand names.

    Facts: NaN is the largest, as torch has it; frontends for whom it is the smallest replace it before.
    Errors: GraphError on an axis without elements.
    """

    out_type: str = "int64"

    def infer(self, *args: Facts) -> Inferred:
        """The shape without the axis."""
        x, axis = args
        want_dtype("arg_max", x, NUMBERS)
        if x.shape is None or axis.integer is None:
            return one(facts.facts(self.out_type, None, lo=0))
        at = axis_in("arg_max", axis.integer, len(x.shape))
        size = x.shape[at]
        hi = size - 1 if isinstance(size, int) and size > 0 else None
        return one(facts.facts(self.out_type, (*x.shape[:at], *x.shape[at + 1 :]), lo=0, hi=hi))

    def reference(self, *args: Value) -> Value:
        """In torch."""
        x = numbers(args[0], "arg_max")
        at = axis_of("arg_max", integer(args[1]), x.ndim)
        if x.shape[at] == 0:
            raise GraphError("arg_max: an axis without elements", got=str(tuple(x.shape)))
        return x.argmax(at).to(torch_dtype(self.out_type))

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.argmax, which answers in int64."""
        x, axis = args
        if axis.facts.integer is None or self.out_type != "int64":
            return None
        return Lowered("aten.argmax.default", (x.value, axis.facts.integer))
