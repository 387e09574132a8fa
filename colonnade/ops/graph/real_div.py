"""`real_div`: the quotient of floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core import facts
from colonnade.ops.graph._elementwise import Binary
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class RealDiv(Binary, GraphOp):
    """`out = a / b`."""

    dtypes: ClassVar[frozenset[str]] = facts.FLOATING
    aten: ClassVar[str] = "aten.div.Tensor"

    def value(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """By torch."""
        return a / b
