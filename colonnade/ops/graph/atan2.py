"""`atan2`: the angle of a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.ops.graph._elementwise import Binary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class Atan2(Binary, GraphOp):
    """`out = atan(a / b)` in the quadrant of (b, a)."""

    dtypes: ClassVar[frozenset[str]] = facts.FLOATING
    aten: ClassVar[str] = "aten.atan2.default"

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return a.atan2(b)
