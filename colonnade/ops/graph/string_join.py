"""`string_join`: strings one behind the other."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp, Inferred


@dataclass(frozen=True)
class StringJoin(OnHost, GraphOp):
    """`out = parts joined by the separator`; a part that is None is the next operand."""

    parts: tuple[bytes | None, ...]
    separator: bytes = b""

    def infer(self, *args: Facts) -> Inferred:
        """As many operands as parts that are not given."""
        if not args or len(args) != sum(part is None for part in self.parts):
            raise ShapeError("string_join: operands for its parts", got=f"{len(args)} for {self.parts}")
        return super().infer(*args)

    def text(self, *values: bytes) -> bytes:
        """By bytes."""
        rest = iter(values)
        return self.separator.join(next(rest) if part is None else part for part in self.parts)
