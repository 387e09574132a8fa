"""`bucketize` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.bucketize import Bucketize, flushed


@emits(Bucketize)
def emit(op: Bucketize, code: Code, x: Emitted) -> Number:
    """A branch-free search over boundaries of a number that is data."""
    assert isinstance(x, Number)
    wide = "tl.float64" if x.dtype == "float64" else "tl.float32"
    bounds = op.boundaries.array
    boundaries = code.constant(flushed(bounds) if op.flush_denormals else np.asarray(bounds))
    count = code.parameter(len(bounds))
    steps = code.parameter(1 << max(len(bounds).bit_length() - 1, 0))
    value = code.let(f"{x.name}.to({wide})")
    if op.flush_denormals:
        value = code.call(f"flushed_{wide[3:]}", value, file="bucketize")
    return number(code, op, [x], code.call("bucketize", value, boundaries, count, steps))
