"""`variable`: a trained tensor, by its key in the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.errors import GraphError
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class Variable(GraphOp):
    """The value of a variable. The tensor itself lies in the store beside the graph and is never copied into it."""

    key: str
    dtype: str
    shape: tuple[int, ...]

    def infer(self, *args: facts.Facts) -> Inferred:
        """dtype and shape."""
        return Inferred((facts.facts(self.dtype, self.shape),))

    def reference(self, *args: Value) -> Value:
        """Never computed: the interpreter takes it from the store."""
        raise GraphError(f"variable {self.key!r} is not in the store")
