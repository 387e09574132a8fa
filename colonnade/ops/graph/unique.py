"""`unique`: every value once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import want_rank
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh, torch_dtype


@dataclass(frozen=True)
class Unique(GraphOp):
    """`(y, idx)`: the values in order of first occurrence, and `x = y[idx]`.

    Facts: every NaN is a value of its own.
    """

    num_outputs: ClassVar[int] = 2
    out_idx: str = "int32"

    def infer(self, *args: Facts) -> Inferred:
        """The count is decided by the data; a vector of proven distinct values stays as it is."""
        (x,) = args
        want_rank("unique", x, 1)
        count = x.shape[0] if x.shape is not None else fresh(1)
        if x.distinct and x.shape is not None and x.dtype in facts.INTEGER:
            return Inferred((x, facts.facts(self.out_idx, (count,), lo=0, content=facts.iota(count))))
        hi = count - 1 if isinstance(count, int) else None
        y = facts.facts(x.dtype, (fresh(0),), lo=x.lo, hi=x.hi, distinct=x.dtype not in facts.FLOATING)
        return Inferred((y, facts.facts(self.out_idx, (count,), lo=0, hi=hi)))

    def reference(self, *args: Value) -> tuple[Value, Value]:
        """By a dict."""
        (x,) = args
        source = array(x)
        seen: dict[Any, int] = {}
        idx = [seen.setdefault(v, len(seen)) for v in source.tolist()]
        made = np.empty(len(seen), dtype=source.dtype)
        made[:] = list(seen)
        return like(x, made), torch.tensor(idx, dtype=torch_dtype(self.out_idx))
