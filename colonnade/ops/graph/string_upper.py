"""`string_upper`: strings in capital letters."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class StringUpper(OnHost, GraphOp):
    """`out = x` with the letters a to z as A to Z; other bytes stay."""

    def text(self, *values: bytes) -> bytes:
        """By bytes, which know ASCII alone."""
        return values[0].upper()
