"""`clip` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import TRITON, Code, Emitted, Number, emits, number
from colonnade.ops.clip import Clip


@emits(Clip)
def emit(op: Clip, code: Code, x: Emitted) -> Number:
    """The bounds are data."""
    assert isinstance(x, Number)
    if x.dtype == "float32":
        numbers = code.constant(np.array([op.least, op.most], np.float32))
        least, most = code.once(f"tl.load({numbers})"), code.once(f"tl.load({numbers} + 1)")
    else:
        least, most = code.parameter(int(op.least)), code.parameter(int(op.most))
    inner = code.let(f"tl.where({x.name} > {most}, {most}, {x.name})")
    return number(code, op, [x], code.let(f"tl.where({x.name} < {least}, {least}, {inner}).to({TRITON[x.dtype]})"))
