"""`string_lower`: strings in small letters."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import letters
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class StringLower(OnHost, GraphOp):
    """`out = x` with the letters A to Z as a to z; other bytes stay.

    utf8: with all letters of Unicode so (`core/letters.py`).
    """

    utf8: bool = False

    def text(self, *values: bytes) -> bytes:
        """By bytes, which know ASCII alone, or as text."""
        (x,) = values
        return letters.lower(x) if self.utf8 else x.lower()
