"""`split`: a tensor cut into equal parts along a dim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import axis_in, want_rank
from colonnade.ops.graph._slicing import Cut, cut_facts
from colonnade.ops.graph._values import array, axis_of, integer, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Split(GraphOp):
    """`out[k] = the k-th of num equal parts of the second operand along the axis that the first names`.

    Errors: GraphError where the dim is no multiple of num.
    """

    num: int = 1

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """One a part."""
        return self.num

    def infer(self, *args: Facts) -> Inferred:
        """The dim is divided by num."""
        axis, x = args
        want_rank("split", axis, 0, "axis")
        if x.shape is None or axis.integer is None:
            shape = None if x.shape is None else tuple(fresh(k) for k in range(len(x.shape)))
            return Inferred((facts.facts(x.dtype, shape, lo=x.lo, hi=x.hi),) * self.num)
        at = axis_in("split", axis.integer, len(x.shape))
        if isinstance(x.shape[at], int) and x.shape[at] % self.num != 0:
            raise ShapeError("split: the dim is no multiple of the parts", got=f"{x.shape[at]} by {self.num}")
        size = dims.div_exact(x.shape[at], self.num)
        if size is None:
            part = facts.facts(x.dtype, (*x.shape[:at], fresh(0), *x.shape[at + 1 :]), lo=x.lo, hi=x.hi)
            return Inferred((part,) * self.num, ((dims.mul(self.num, fresh(0)), x.shape[at]),))
        whole = [Cut(0, d) for d in x.shape]
        cuts = [[*whole[:at], Cut(dims.mul(k, size), size), *whole[at + 1 :]] for k in range(self.num)]
        return Inferred(tuple(cut_facts(x, cut) for cut in cuts))

    def reference(self, *args: Value) -> Any:
        """By numpy."""
        axis, x = args
        source = array(x)
        at = axis_of("split", integer(axis), source.ndim)
        if source.shape[at] % self.num != 0:
            raise GraphError("split: the dim is no multiple of the parts", got=f"{source.shape[at]} by {self.num}")
        parts = [like(x, part) for part in np.split(source, self.num, at)]
        return parts[0] if self.num == 1 else tuple(parts)

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.split_with_sizes, which also takes a dim of 0."""
        axis, x = args
        at, shape = axis.facts.integer, x.facts.shape
        size = None if at is None or shape is None else dims.div_exact(shape[at], self.num)
        if self.num == 1 and size is not None:
            return Lowered("aten.alias.default", (x.value,))
        return None if size is None else Lowered("aten.split_with_sizes.default", (x.value, (size,) * self.num, at))
