"""`string_upper`: strings in capital letters."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import letters
from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class StringUpper(OnHost, GraphOp):
    """`out = x` with the letters a to z as A to Z; other bytes stay.

    utf8: with all letters of Unicode so (`core/letters.py`).
    """

    utf8: bool = False

    def text(self, *values: bytes) -> bytes:
        """By bytes, which know ASCII alone, or as text."""
        (x,) = values
        return letters.upper(x) if self.utf8 else x.upper()
