"""`or_else`: a number, or another where it is negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.errors import ShapeError
from colonnade.ops.cast import BOUNDS
from colonnade.ops.op import ElementFacts, MapOp, Value


@dataclass(frozen=True)
class OrElse(MapOp):
    """`out = a if a >= 0 else b + added`, in int64.

    Facts: for values set apart: a is a vocabulary that gives -1 to all others, b what becomes of those.
    """

    added: int
    arity: ClassVar[int] = 2

    def infer(self, *args: ElementFacts) -> ElementFacts:
        """Both ranges together. Errors: ShapeError also where a sum may not fit."""
        a, b = args
        if any(x.dtype != "int64" for x in args):
            raise ShapeError("or_else takes int64", got=", ".join(x.dtype for x in args), want="int64, int64")
        least, most = BOUNDS["int64"]
        lo, hi = (least if b.lo is None else b.lo) + self.added, (most if b.hi is None else b.hi) + self.added
        if lo < least or hi > most:
            raise ShapeError("or_else: a sum that may not fit int64", got=f"{lo} .. {hi}", want="int64")
        top = most if a.hi is None else a.hi
        return ElementFacts("int64", min(lo, 0), max(hi, top))

    def reference(self, *args: Value) -> Value:
        """Elementwise."""
        a, b = args
        assert isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        return torch.where(a >= 0, a, b + self.added)
