"""`guard`: a tensor that is only there where a condition holds."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core.facts import Facts
from colonnade.errors import GraphError
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Guard(GraphOp):
    """`out = x`, the first operand, where the second is true everywhere.

    Errors: GraphError with the message where it is not.
    """

    message: str

    def infer(self, *args: Facts) -> Inferred:
        """All that is known of x."""
        x, condition = args
        want_dtype("guard", condition, ("bool",), "condition")
        return one(x)

    def reference(self, *args: Value) -> Value:
        """The operand."""
        x, condition = args
        if not bool(numbers(condition, "guard").all()):
            raise GraphError("an assertion of the model does not hold", got=self.message)
        return x

    def lower(self, *args: Operand) -> Lowered | None:
        """Nothing where the condition is proven, else an op of our own."""
        x, condition = args
        if x.facts.dtype == "string":
            return None
        if condition.facts.lo == 1:
            return Lowered("aten.alias.default", (x.value,))
        return Lowered("colonnade.guard", (x.value, condition.value, f"message: {self.message}"))
