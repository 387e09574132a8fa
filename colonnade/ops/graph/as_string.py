"""`as_string`: numbers as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core import facts
from colonnade.core.facts import Facts
from colonnade.ops.graph._facts import one, want_dtype
from colonnade.ops.graph._values import array
from colonnade.ops.op import GraphOp, Inferred, Value


@dataclass(frozen=True)
class AsString(GraphOp):
    """`out = decimal text of x`: integers plainly, floats with six decimals, bools as true and false."""

    def infer(self, *args: Facts) -> Inferred:
        """Strings of the same shape."""
        (x,) = args
        want_dtype("as_string", x, facts.INTEGER | {"float32", "float64", "bool"})
        return one(facts.facts("string", x.shape))

    def reference(self, *args: Value) -> Value:
        """One element at a time."""
        (x,) = args
        source = array(x)
        made = np.empty(source.size, dtype=object)
        made[:] = [_text(v) for v in source.reshape(-1).tolist()]
        return made.reshape(source.shape)


def _text(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return str(value).encode()
    sign = "-" if math.isnan(value) and math.copysign(1.0, value) < 0 else ""
    return f"{sign}{value:f}".encode()
