"""`rank`: the number of dims."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import one
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class Rank(GraphOp):
    """`out = number of dims of x`, an int32 scalar."""

    def infer(self, *args: Facts) -> Inferred:
        """Shape to content."""
        (x,) = args
        return one(facts.facts("int32", (), lo=0, content=None if x.rank is None else (x.rank,)))

    def reference(self, *args: Value) -> Value:
        """The rank."""
        (x,) = args
        return torch.tensor(x.ndim, dtype=torch.int32)
