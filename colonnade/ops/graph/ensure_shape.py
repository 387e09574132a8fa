"""`ensure_shape`: a tensor that must have a shape."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import one
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class EnsureShape(GraphOp):
    """`out = x`; -1 in `shape` stands for any size.

    Errors: GraphError where x has another shape.
    """

    shape: tuple[int, ...]

    def infer(self, *args: Facts) -> Inferred:
        """The sizes are those asked for; those that are not known must equal them."""
        (x,) = args
        if x.shape is None:
            raise ShapeError("ensure_shape of a tensor of unknown rank", want=str(self.shape))
        pairs = list(zip(x.shape, self.shape, strict=False))
        if len(x.shape) != len(self.shape) or any(isinstance(a, int) and b not in (-1, a) for a, b in pairs):
            raise ShapeError("ensure_shape: another shape", got=str(x.shape), want=str(self.shape))
        return one(x, tuple((a, b) for a, b in pairs if b != -1))

    def reference(self, *args: Value) -> Value:
        """The operand."""
        (x,) = args
        if len(x.shape) != len(self.shape) or any(b not in (-1, a) for a, b in zip(x.shape, self.shape, strict=True)):
            raise GraphError("ensure_shape: another shape", got=str(tuple(x.shape)), want=str(self.shape))
        return x

    def lower(self, *args: Operand) -> Lowered | None:
        """Nothing: sizes that are not proven are checked before."""
        (x,) = args
        return None if x.facts.dtype == "string" else Lowered("aten.alias.default", (x.value,))
