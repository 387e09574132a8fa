"""`clip_rows`: rows scaled to a norm that they do not exceed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.core.row_sums import row_sums
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.graph._values import array, like
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value

TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class ClipRows(GraphOp):
    """`out[..., :] = x * max_norm / max(norm of x[..., :], max_norm)`, each row of the last axis by itself.

    Facts: the float32 arithmetic of TensorFlow's `clip_by_norm`, sums in its order, denormals flushed: a row that is
    short enough is still multiplied and divided.
    Shapes: [..., D] -> [..., D].
    """

    max_norm: float

    def infer(self, *args: Facts) -> Inferred:
        """Nothing but values changes."""
        want_dtype("clip_rows", args[0], ("float32",))
        return one(facts.facts("float32", args[0].shape))

    def reference(self, *args: Value) -> Value:
        """By `rows`."""
        return like(args[0], self.rows(array(args[0])))

    def rows(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The clipped rows of an array."""
        bound = np.float32(self.max_norm)
        with np.errstate(all="ignore"):
            values = _flushed(x)
            total = row_sums(_flushed(values * values))[..., None]
            norm = np.where(total > 0, np.sqrt(np.where(total > 0, total, np.float32(1))), total)
            made: npt.NDArray[Any] = _flushed(_flushed(values * bound) / np.maximum(norm, bound))
        return made

    def lower(self, *args: Operand) -> Lowered | None:
        """The same by aten."""
        (x,) = args
        squares = Lowered("aten.mul.Tensor", (x.value, x.value))
        total = Lowered("aten.sum.dim_IntList", (squares, (-1,), True))
        longest = Lowered("aten.clamp_min.default", (Lowered("aten.sqrt.default", (total,)), self.max_norm))
        return Lowered("aten.div.Tensor", (Lowered("aten.mul.Tensor", (x.value, self.max_norm)), longest))


def _flushed(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Denormals as zeros of their sign."""
    return np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x)
