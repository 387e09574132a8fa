"""`substr`: a part of strings, by bytes."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import GraphError
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Substr(OnHost, GraphOp):
    """`out = length bytes of x from start on`, fewer at its end; a negative start counts from the end.

    Errors: GraphError where the start lies outside of a string.
    """

    start: int
    length: int

    def text(self, *values: bytes) -> bytes:
        """By slicing."""
        (x,) = values
        if not -len(x) <= self.start <= len(x):
            raise GraphError("substr: a start outside of a string", got=f"{self.start} of {len(x)} bytes")
        at = self.start + len(x) if self.start < 0 else self.start
        return x[at : at + max(self.length, 0)]
