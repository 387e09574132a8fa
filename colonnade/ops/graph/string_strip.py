"""`string_strip`: strings without white space around them."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class StringStrip(OnHost, GraphOp):
    """`out = x` without the white space (blank, tab, newlines, feeds) at its beginning and end."""

    def text(self, *values: bytes) -> bytes:
        """By bytes, which know ASCII alone."""
        return values[0].strip()
