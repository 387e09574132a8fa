"""`range`: evenly spaced numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import dims, facts
from colonnade.core.dims import Dim
from colonnade.core.facts import Facts, Term
from colonnade.errors import GraphError
from colonnade.ops.graph._facts import fits, nonnegative, one, want_rank, want_same_dtype
from colonnade.ops.graph._values import array, tensor
from colonnade.ops.op import GraphOp, Inferred, Lowered, Operand, Value, fresh


@dataclass(frozen=True)
class Range(GraphOp):
    """`out = start, start + delta, ...` up to but without `limit`.

    Errors: GraphError where delta is 0 or leads away from the limit.
    """

    def infer(self, *args: Facts) -> Inferred:
        """Content to shape, and content `start + delta * i`."""
        dtype = want_same_dtype("range", args)
        for f in args:
            want_rank("range", f, 0)
        if dtype not in facts.INTEGER:
            return one(facts.facts(dtype, (fresh(0),)))
        start, limit, delta = (_only(f) for f in args)
        length = fresh(0) if start is None or limit is None or delta is None else _length(start, limit, delta)
        known: dict[str, Any] = {}
        if start is not None and isinstance(delta, int) and delta != 0:
            content = facts.indexed((Term(delta, 1, None),), start, length)
            if isinstance(start, int) and isinstance(length, int) and length <= facts.MAX_CONTENT:
                known["content"] = tuple(start + delta * i for i in range(length))
            elif fits(content, length, dtype):
                known["content"] = content
            known |= _limits(start, args[1], delta)
        return one(facts.facts(dtype, (length,), **known))

    def reference(self, *args: Value) -> Value:
        """Element by element for integers, by numpy for floats."""
        start, limit, delta = (array(v) for v in args)
        if delta == 0 or (delta > 0 and start > limit) or (delta < 0 and start < limit):
            raise GraphError("range that leads nowhere", got=f"{start} .. {limit} by {delta}")
        if start.dtype.kind in "iu":
            return tensor(np.array(range(int(start), int(limit), int(delta)), dtype=start.dtype))
        count = max(0, int(np.ceil(abs((float(limit) - float(start)) / float(delta)))))
        steps = np.empty(count, dtype=start.dtype)
        value = start
        for k in range(count):
            steps[k] = value
            value = (value + delta).astype(start.dtype)
        return tensor(steps)

    def lower(self, *args: Operand) -> Lowered | None:
        """aten.arange, of integers whose number is known."""
        start, _, delta = (_only(a.facts) for a in args)
        made = self.infer(*(a.facts for a in args)).outputs[0]
        if start is None or not isinstance(delta, int) or made.dtype not in facts.INTEGER or made.shape is None:
            return None
        steps = Lowered("aten.arange.default", made.shape, (("dtype", made.dtype),))
        if delta != 1:
            steps = Lowered("aten.mul.Scalar", (steps, delta))
        return steps if start == 0 else Lowered("aten.add.Scalar", (steps, start))


def _only(f: Facts) -> Dim | None:
    return f.values[0] if f.values is not None and len(f.values) == 1 else None


def _length(start: Dim, limit: Dim, delta: Dim) -> Dim:
    """The number of steps, where it is known and running the op cannot fail."""
    if all(isinstance(d, int) for d in (start, limit, delta)):
        return len(range(start, limit, delta)) if delta != 0 else fresh(0)
    distance = dims.sub(limit, start)
    return distance if delta == 1 and nonnegative(distance) else fresh(0)


def _limits(start: Dim, limit: Facts, delta: int) -> dict[str, int]:
    made: dict[str, int] = {}
    if delta > 0:
        if isinstance(start, int):
            made["lo"] = start
        if limit.hi is not None:
            made["hi"] = limit.hi - 1
    else:
        if isinstance(start, int):
            made["hi"] = start
        if limit.lo is not None:
            made["lo"] = limit.lo + 1
    return made
