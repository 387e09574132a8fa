"""`string_lower`: strings in small letters."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class StringLower(OnHost, GraphOp):
    """`out = x` with the letters A to Z as a to z; other bytes stay."""

    def text(self, *values: bytes) -> bytes:
        """By bytes, which know ASCII alone."""
        return values[0].lower()
