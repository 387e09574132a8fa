"""`matrix_band_part`: a band around the diagonal, zeros elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core import facts
from colonnade.core.facts import Facts, Shape
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import one, want_dtype, want_rank
from colonnade.ops.graph._values import integer, numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value


@dataclass(frozen=True)
class MatrixBandPart(GraphOp):
    """`out[.., i, j] = x[.., i, j] where i - j <= lower and j - i <= upper else 0`; a negative bound is none.

    Errors: GraphError where a bound is larger than the dim that it counts along.
    """

    def infer(self, *args: Facts) -> Inferred:
        """The shape is kept."""
        x, lower, upper = args
        want_dtype("matrix_band_part", x, NUMBERS | {"bool"})
        for f, operand in ((lower, "lower"), (upper, "upper")):
            want_dtype("matrix_band_part", f, ("int32", "int64"), operand)
            want_rank("matrix_band_part", f, 0, operand)
        if x.shape is not None and len(x.shape) < 2:
            raise ShapeError("matrix_band_part of what is no matrix", got=str(x.shape))
        lo = None if x.lo is None else min(x.lo, 0)
        hi = None if x.hi is None else max(x.hi, 0)
        return one(facts.facts(x.dtype, x.shape, lo=lo, hi=hi))

    def reference(self, *args: Value) -> Value:
        """By torch."""
        x, lower, upper = numbers(args[0], "matrix_band_part"), integer(args[1]), integer(args[2])
        if x.ndim < 2:
            raise GraphError("matrix_band_part of what is no matrix", got=str(tuple(x.shape)))
        if not _inside((lower, upper), tuple(x.shape)):
            raise GraphError("matrix_band_part: a bound beyond the matrix", got=f"{lower}, {upper} of {tuple(x.shape)}")
        kept = x.triu(-lower) if lower >= 0 else x
        return kept.tril(upper) if upper >= 0 else kept.clone()

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.triu and aten.tril, where both bounds are known to lie inside."""
        x, lower, upper = args
        bounds = (lower.facts.integer, upper.facts.integer)
        below, above = bounds
        if x.facts.shape is None or below is None or above is None or not _inside(bounds, x.facts.shape):
            return None
        made = x.value if below < 0 else Lowered("aten.triu.default", (x.value, -below))
        if above >= 0:
            return Lowered("aten.tril.default", (made, above))
        return made if isinstance(made, Lowered) else Lowered("aten.alias.default", (x.value,))


def _inside(bounds: tuple[int | None, int | None], shape: Shape) -> bool:
    """Whether each bound is proven to be at most the dim."""
    return all(
        b is not None and (b <= 0 or (isinstance(d, int) and b <= d)) for b, d in zip(bounds, shape[-2:], strict=True)
    )
