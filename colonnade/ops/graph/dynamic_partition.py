"""`dynamic_partition`: a tensor dealt out to several by a number for each of its elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.errors import GraphError, ShapeError
from colonnade.ops.graph._facts import want_dtype
from colonnade.ops.graph._values import array, check_range, like
from colonnade.ops.op import GraphOp, Inferred, Value, fresh


@dataclass(frozen=True)
class DynamicPartition(GraphOp):
    """`out[k] = the elements of the first operand, in order, to which the second gives the number k`.

    Shapes: data [N..., S...], numbers [N...] -> num times [n_k, S...].
    Errors: GraphError on a number outside 0 .. num - 1.
    """

    num: int = 1

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """One a part."""
        return self.num

    def infer(self, *args: Facts) -> Inferred:
        """The data decide the sizes; parts keep the range of the whole, and the order and distinctness of a vector."""
        data, numbers = args
        want_dtype("dynamic_partition", numbers, ("int32",), "numbers")
        if data.shape is None or numbers.shape is None:
            return Inferred((facts.facts(data.dtype, None, lo=data.lo, hi=data.hi),) * self.num)
        rank = len(numbers.shape)
        if len(data.shape) < rank:
            raise ShapeError("dynamic_partition: numbers of more dims than the data", got=f"{numbers.shape}")
        rest = data.shape[rank:]
        known: dict[str, Any] = {"order": data.order, "distinct": data.distinct} if len(data.shape) == 1 else {}
        parts = tuple(
            facts.facts(data.dtype, (fresh(k), *rest), lo=data.lo, hi=data.hi, **known) for k in range(self.num)
        )
        return Inferred(parts, tuple(zip(data.shape, numbers.shape, strict=False)))

    def reference(self, *args: Value) -> Any:
        """By masks."""
        data, numbers = args
        source, of = array(data), array(numbers)
        if source.shape[: of.ndim] != of.shape:
            raise GraphError("dynamic_partition: shapes differ", got=f"{source.shape} and {of.shape}")
        check_range("dynamic_partition", of, self.num)
        flat = source.reshape(of.size, *source.shape[of.ndim :])
        parts = [like(data, flat[of.reshape(-1) == k]) for k in range(self.num)]
        return parts[0] if self.num == 1 else tuple(parts)
