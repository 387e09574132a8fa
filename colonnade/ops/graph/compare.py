"""`compare`: two tensors compared element by element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import ShapeError
from colonnade.ops.bucketize import flushed
from colonnade.ops.graph._elementwise import check_broadcast
from colonnade.ops.graph._facts import broadcast, limits, one, want_same_dtype
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, structural

Kind = Literal["eq", "ne", "lt", "le", "gt", "ge"]
TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@dataclass(frozen=True)
class Compare(GraphOp):
    """`out = a <kind> b`, bool, with broadcasting; strings only by eq and ne.

    flush_denormals: denormal floats count as signed zero.
    Facts: lo is 1 where the ranges of integers prove it always true, hi is 0 where they prove it never true.
    """

    kind: Kind = structural()  # noqa: RUF009
    flush_denormals: bool = False

    def infer(self, *args: Facts) -> Inferred:
        """Proof by ranges."""
        a, b = args
        dtype = want_same_dtype("compare", args)
        if dtype in ("string", "bool") and self.kind not in ("eq", "ne"):
            raise ShapeError("compare: an order of what has none", got=f"{dtype} {self.kind}", want="eq, ne")
        shape, equal = broadcast("compare", a.shape, b.shape)
        lo, hi = self._proof(limits(a), limits(b))
        return one(facts.facts("bool", shape, lo=lo, hi=hi), equal)

    def _proof(self, a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int]:
        if a is None or b is None:
            return 0, 1
        below, above = a[1] < b[0], a[0] > b[1]
        at_most, at_least = a[1] <= b[0], a[0] >= b[1]
        same = a == b and a[0] == a[1]
        always, never = {
            "eq": (same, below or above),
            "ne": (below or above, same),
            "lt": (below, at_least),
            "le": (at_most, above),
            "gt": (above, at_most),
            "ge": (at_least, below),
        }[self.kind]
        return int(always), int(not never)

    def reference(self, *args: Value) -> Value:
        """By numpy."""
        a, b = (array(v) for v in args)
        check_broadcast("compare", a, b)
        if self.flush_denormals and a.dtype.kind == "f":
            a, b = flushed(a), flushed(b)
        return torch.from_numpy(np.array(TESTS[self.kind](a, b), dtype=np.bool_))

    def lower(self, *args: Operand) -> Lowered | None:
        """The aten comparison of the same name, of floats whose denormals are flushed before where asked."""
        dtype = args[0].facts.dtype
        if dtype == "string":
            return None
        flush = self.flush_denormals and dtype in facts.FLOATING
        return Lowered(f"aten.{self.kind}.Tensor", tuple(lower_flushed(x) if flush else x.value for x in args))


def lower_flushed(x: Operand) -> Lowered:
    """The operand with 0 in the place of denormal floats."""
    tiny = float(np.finfo(x.facts.dtype).tiny)
    denormal = Lowered("aten.lt.Scalar", (Lowered("aten.abs.default", (x.value,)), tiny))
    return Lowered("aten.masked_fill.Scalar", (x.value, denormal, 0.0))
