"""`regex_replace`: what a pattern finds in strings, replaced."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from colonnade.ops.graph._on_host import OnHost
from colonnade.ops.op import GraphOp

PLAIN = re.compile(rb"[^\\.*+?{}\[\]()|^$]")
"""A byte that means itself."""


@dataclass(frozen=True)
class RegexReplace(OnHost, GraphOp):
    r"""`out = x` with each place, or the first, that is one of a class of bytes, or a run of them, as the rewrite.

    pattern: Python's, of bytes; `is_class` says which are taken.
    """

    pattern: bytes
    rewrite: bytes
    everywhere: bool = True

    def text(self, *values: bytes) -> bytes:
        """By Python's regular expressions of bytes, in which the rewrite is no template."""
        return self._compiled.sub(lambda found: self.rewrite, values[0], count=0 if self.everywhere else 1)

    @cached_property
    def _compiled(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern)
