"""`all`: whether all are true, over axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from colonnade.core.dims import Dim
from colonnade.ops.graph._elementwise import Range
from colonnade.ops.graph._facts import positive
from colonnade.ops.graph._reduce import Reduction
from colonnade.ops.op import GraphOp


@dataclass(frozen=True)
class All(Reduction, GraphOp):
    """`out = whether every x over axes is true`; true over nothing."""

    dtypes: ClassVar[frozenset[str]] = frozenset({"bool"})
    aten: ClassVar[str] = "aten.all.dims"
    keep_dims: bool = False

    def on_range(self, x: tuple[int, int], counts: Sequence[Dim]) -> Range:
        """True where all are proven true; false where none is and there is one."""
        return x[0], (x[1] if all(map(positive, counts)) else 1)

    def value(self, x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
        """By torch."""
        for k in over:
            x = x.all(k, keepdim=True)
        return x if self.keep_dims else x.squeeze(over)
