"""`split_v`: a tensor cut into parts of given sizes along a dim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import axis_in, nonnegative, want_rank
from colonnade.ops.graph._slicing import Cut, cut_facts
from colonnade.ops.graph._values import array, axis_of, integer, integers, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class SplitV(GraphOp):
    """`out[k] = the next sizes[k] elements of x along the axis that the third operand names`; one of several
    sizes may be -1: what is left.

    Errors: GraphError where the sizes do not add up to the dim.
    """

    num: int = 1

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """One a part."""
        return self.num

    def infer(self, *args: Facts) -> Inferred:
        """Content of sizes to shapes; their sum must equal the dim."""
        x, sizes, axis = args
        want_rank("split_v", axis, 0, "axis")
        want_rank("split_v", sizes, 1, "sizes")
        if x.shape is None:
            return Inferred((facts.facts(x.dtype, None, lo=x.lo, hi=x.hi),) * self.num)
        if axis.integer is None:
            shape = tuple(fresh(k) for k in range(len(x.shape)))
            return Inferred((facts.facts(x.dtype, shape, lo=x.lo, hi=x.hi),) * self.num)
        at = axis_in("split_v", axis.integer, len(x.shape))
        parts = _sizes(sizes.values, x.shape[at], self.num)
        if parts is None:
            unknown = [(*x.shape[:at], fresh(k), *x.shape[at + 1 :]) for k in range(self.num)]
            return Inferred(tuple(facts.facts(x.dtype, shape, lo=x.lo, hi=x.hi) for shape in unknown))
        whole = [Cut(0, d) for d in x.shape]
        begins = [dims.add(0, *parts[:k]) for k in range(self.num)]
        cuts = [[*whole[:at], Cut(b, s), *whole[at + 1 :]] for b, s in zip(begins, parts, strict=True)]
        total = dims.add(0, *parts)
        equal = ((total, x.shape[at]),) if total != x.shape[at] else ()
        return Inferred(tuple(cut_facts(x, cut) for cut in cuts), equal)

    def reference(self, *args: Value) -> Any:
        """By numpy."""
        x, sizes, axis = args
        source, asked = array(x), integers(sizes)
        at = axis_of("split_v", integer(axis), source.ndim)
        counts = list(asked)
        if counts.count(-1) == 1 and self.num > 1:
            counts[counts.index(-1)] = source.shape[at] - sum(c for c in counts if c != -1)
        if len(counts) != self.num or sum(counts) != source.shape[at] or min(counts, default=0) < 0:
            raise GraphError("split_v: sizes that do not add up to the dim", got=f"{asked} of {source.shape[at]}")
        parts = [like(x, part) for part in np.split(source, np.cumsum(counts)[:-1], at)]
        return parts[0] if self.num == 1 else tuple(parts)

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.split_with_sizes."""
        x, sizes, axis = args
        at, shape = axis.facts.integer, x.facts.shape
        parts = None if at is None or shape is None else _sizes(sizes.facts.values, shape[at], self.num)
        if self.num == 1 and parts is not None:
            return Lowered("aten.alias.default", (x.value,))
        return None if parts is None else Lowered("aten.split_with_sizes.default", (x.value, parts, at))


def _sizes(values: tuple[Dim, ...] | None, dim: Dim, num: int) -> tuple[Dim, ...] | None:
    """The size of each part; None where one is not known. Errors: ShapeError where they cannot be."""
    if values is None:
        return None
    left = dims.sub(dim, dims.add(0, *(v for v in values if v != -1)))
    parts = tuple(left if v == -1 else v for v in values)
    known = all(isinstance(p, int) for p in parts) and isinstance(dim, int)
    wrong = known and (dims.add(0, *parts) != dim or any(isinstance(p, int) and p < 0 for p in parts))
    if len(values) != num or values.count(-1) > min(num - 1, 1) or wrong:
        raise ShapeError("split_v: sizes that do not add up to the dim", got=f"{values} of {dim}")
    return parts if all(map(nonnegative, parts)) else None
