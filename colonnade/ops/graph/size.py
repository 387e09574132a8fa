"""`size`: the number of elements."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import fits, one
from colonnade.ops.op import GraphOp, Inferred, Value, torch_dtype


@dataclass(frozen=True)
class Size(GraphOp):
    """`out = number of elements of x`, a scalar."""

    out_type: str = "int32"

    def infer(self, *args: Facts) -> Inferred:
        """Shape to content."""
        (x,) = args
        content = None if x.size is None else (x.size,)
        return one(facts.facts(self.out_type, (), lo=0, content=content if fits(content, 1, self.out_type) else None))

    def reference(self, *args: Value) -> Value:
        """The product of the dims."""
        (x,) = args
        return torch.tensor(math.prod(x.shape), dtype=torch_dtype(self.out_type))
