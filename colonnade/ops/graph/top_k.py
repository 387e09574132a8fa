"""`top_k`: the largest elements along the last dim, and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._elementwise import NUMBERS
from colonnade.ops.graph._facts import want_dtype, want_rank
from colonnade.ops.graph._values import integer, numbers
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh, torch_dtype


@dataclass(frozen=True)
class TopK(GraphOp):
    """`out[0] = the k largest of x, in descending order`, `out[1] = their places`; of equal ones the first is first.

    Facts: NaN is the largest, as torch has it.
    Errors: GraphError where k is negative or larger than the last dim.
    """

    num_outputs: ClassVar[int] = 2
    out_type: str = "int32"

    def infer(self, *args: Facts) -> Inferred:
        """Content of k to shape."""
        x, k = args
        want_dtype("top_k", x, NUMBERS)
        want_rank("top_k", k, 0, "k")
        if x.shape is None:
            return Inferred((facts.facts(x.dtype, None, lo=x.lo, hi=x.hi), facts.facts(self.out_type, None, lo=0)))
        if not x.shape:
            raise ShapeError("top_k of a scalar", got="()", want="at least 1 dimension")
        last, count = x.shape[-1], k.values[0] if k.values else fresh(0)
        if isinstance(count, int) and (count < 0 or (isinstance(last, int) and count > last)):
            raise ShapeError("top_k: k is larger than the last dim", got=f"{count} of {last}")
        hi = last - 1 if isinstance(last, int) and last > 0 else None
        shape = (*x.shape[:-1], count)
        return Inferred((facts.facts(x.dtype, shape, lo=x.lo, hi=x.hi), facts.facts(self.out_type, shape, lo=0, hi=hi)))

    def reference(self, *args: Value) -> tuple[Value, ...]:
        """By torch's stable sort."""
        x, k = numbers(args[0], "top_k"), integer(args[1])
        if x.ndim == 0 or not 0 <= k <= x.shape[-1]:
            raise GraphError("top_k: k is larger than the last dim", got=f"{k} of {tuple(x.shape)}")
        values, places = x.sort(dim=-1, descending=True, stable=True)
        return values[..., :k].clone(), places[..., :k].to(torch_dtype(self.out_type))

    def lower(self, *args: Operand) -> Lowered | None:
        """An op of our own: aten.topk leaves open which of equal elements comes first."""
        x, k = args
        last, count = (x.facts.shape or (None,))[-1], k.facts.integer
        if count is None or not isinstance(last, int) or not 0 <= count <= last:
            return None
        return Lowered("colonnade.top_k", (x.value, count, self.out_type))
