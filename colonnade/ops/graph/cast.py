"""`cast`: the same numbers in another dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.core import facts
from colonnade.core.expr import Apply, Expr
from colonnade.core.facts import Facts, Order, Packed
from colonnade.ops import cast as column
from colonnade.ops.graph._facts import BOUNDS, fits, limits, one, want_dtype
from colonnade.ops.graph._values import numbers
from colonnade.ops.graph.compare import lower_flushed
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, torch_dtype

DTYPES = facts.INTEGER | facts.FLOATING | {"bool"}


@dataclass(frozen=True)
class Cast(GraphOp):
    """`out = x` as dtype `to`.

    Facts: a narrowing integer cast wraps: range, content and order are kept only where every value fits.
    """

    to: str

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept; what else is kept depends on whether every value fits."""
        (x,) = args
        want_dtype("cast", x, DTYPES)
        return one(self._cast(x))

    def _cast(self, x: Facts) -> Facts:
        if x.dtype == self.to:
            return x
        known = limits(x)
        if known is None or self.to not in BOUNDS:
            return facts.facts(self.to, x.shape)
        if self.to == "bool":
            lo, hi = known
            return facts.facts("bool", x.shape, lo=int(lo > 0 or hi < 0), hi=int((lo, hi) != (0, 0)))
        packed = None if x.packed is None else Packed(x.packed.axis, tuple(map(self._cast, x.packed.parts)))
        target = BOUNDS[self.to]
        if target[0] <= known[0] and known[1] <= target[1]:
            return x.but(dtype=self.to, lo=known[0], hi=known[1], packed=packed)
        if x.content is not None and fits(x.content, x.size, self.to):
            lo_kept = x.lo if x.lo is not None and x.lo >= target[0] else None
            return facts.facts(
                self.to, x.shape, lo=lo_kept, order=x.order, distinct=x.distinct, content=x.content, packed=packed
            )
        return facts.facts(self.to, x.shape, order=self._order(x, packed), packed=packed)

    def _order(self, x: Facts, packed: Packed | None) -> Order:
        """The order of an index matrix stays where every part fits: content of unknown sizes counts as fitting."""
        if packed is None or x.packed is None:
            return Order.NONE
        same = all(
            a.content == b.content and b.content is not None for a, b in zip(x.packed.parts, packed.parts, strict=True)
        )
        return x.order if same else Order.NONE

    def reference(self, *args: Value) -> Value:
        """By torch, with the float overflow rule of x86 made explicit."""
        (x,) = args
        source = numbers(x, "cast")
        if source.is_floating_point() and self.to in facts.INTEGER:
            # Small integers are the low bits of a wider conversion.
            wide = {"int64": "int64", "uint32": "int64", "uint64": "int64"}.get(self.to, "int32")
            source = numbers(column.Cast(wide).reference(source))
        return source.to(torch_dtype(self.to))

    def elementwise(self, *args: Expr) -> Expr | None:
        """The column op `cast`, which takes the four common dtypes."""
        return Apply(column.Cast(self.to), *args) if self.to in column.DTYPES else None

    def lower(self, *args: Operand) -> Lowered | None:
        """aten._to_copy; of floats that fit, or of the smallest integer in their place: torch leaves open what else."""
        (x,) = args
        made: Any = x.value
        if x.facts.dtype in ("float32", "float64") and self.to == "bool":
            return Lowered("aten.ne.Scalar", (lower_flushed(x), 0))
        if x.facts.dtype in facts.FLOATING and self.to in BOUNDS:
            if self.to not in ("int32", "int64") or x.facts.dtype not in ("float32", "float64"):
                return None
            least = float(BOUNDS[self.to][0])
            # A float32 below 2^31 is at most 2^31 - 128; a float64 between 2^31 - 1 and 2^31 is cut to 2^31 - 1.
            fits = [Lowered("aten.ge.Scalar", (made, least)), Lowered("aten.lt.Scalar", (made, -least))]
            if x.facts.dtype == "float64" and self.to == "int32":
                fits[0] = Lowered("aten.gt.Scalar", (made, least - 1))
            outside = Lowered("aten.logical_not.default", (Lowered("aten.logical_and.default", tuple(fits)),))
            made = Lowered("aten.masked_fill.Scalar", (made, outside, least))
        return Lowered("aten._to_copy.default", (made,), (("dtype", self.to),))
