"""`unpack`: the slices of a tensor along a dim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import axis_in
from colonnade.ops.graph._slicing import Cut, Step, Take, cut_facts
from colonnade.ops.graph._values import array, axis_of, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class Unpack(GraphOp):
    """`out[k] = x[.., k, ..]` at place `axis`, k < num.

    Errors: GraphError where the dim is not num.
    """

    num: int = 1
    axis: int = 0

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """One a slice."""
        return self.num

    def infer(self, *args: Facts) -> Inferred:
        """The shape without the dim, which must be num."""
        (x,) = args
        if x.shape is None:
            return Inferred((facts.facts(x.dtype, None, lo=x.lo, hi=x.hi),) * self.num)
        at = axis_in("unpack", self.axis, len(x.shape))
        if isinstance(x.shape[at], int) and x.shape[at] != self.num:
            raise ShapeError("unpack: the dim is another number", got=str(x.shape), want=str(self.num))
        whole = [Cut(0, d) for d in x.shape]
        cuts: list[list[Step]] = [[*whole[:at], Take(k), *whole[at + 1 :]] for k in range(self.num)]
        equal = () if x.shape[at] == self.num else ((x.shape[at], self.num),)
        return Inferred(tuple(cut_facts(x, cut) for cut in cuts), equal)

    def reference(self, *args: Value) -> Any:
        """By numpy."""
        (x,) = args
        source = array(x)
        at = axis_of("unpack", self.axis, source.ndim)
        if source.shape[at] != self.num:
            raise GraphError("unpack: the dim is another number", got=str(source.shape), want=str(self.num))
        parts = [like(x, np.take(source, k, at)) for k in range(self.num)]
        return parts[0] if self.num == 1 else tuple(parts)

    def lower(self, *args: Operand) -> Lowered:
        """aten.unbind; aten.select of the only slice."""
        (x,) = args
        if self.num == 1:
            return Lowered("aten.select.int", (x.value, self.axis, 0))
        return Lowered("aten.unbind.int", (x.value, self.axis))
