"""`greater` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.greater import Greater


@emits(Greater)
def emit(op: Greater, code: Code, x: Emitted) -> Number:
    """The bound is data."""
    assert isinstance(x, Number)
    bound = code.once(f"tl.load({code.constant(np.array([op.bound], np.float32))})")
    value = code.call("flushed_float32", x.name, file="bucketize") if op.flush_denormals else x.name
    return number(code, op, [x], code.let(f"{value} > {bound}"))
