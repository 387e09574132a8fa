"""`shape`: the dims of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core import facts
from colonnade.ops.graph._facts import one
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class Shape(GraphOp):
    """`out = dims of x`, a vector.

    Facts: shape to content.
    """

    out_type: str = "int32"

    def infer(self, *args: facts.Facts) -> Inferred:
        """The content is the shape."""
        (x,) = args
        if x.shape is None:
            return one(facts.facts(self.out_type, (fresh(0),), lo=0))
        content = x.shape if len(x.shape) <= facts.MAX_CONTENT else None
        return one(facts.facts(self.out_type, (len(x.shape),), lo=0, content=content))

    def reference(self, *args: Value) -> Value:
        """The dims."""
        (x,) = args
        return tensor(np.array(array(x).shape, dtype=self.out_type))
