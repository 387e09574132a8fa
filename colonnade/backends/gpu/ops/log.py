"""`log` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.core.logarithm import LN2_HIGH, LN2_LOW, SQRT2, TERMS
from colonnade.ops.log import Log


@emits(Log)
def emit(op: Log, code: Code, x: Emitted) -> Number:
    """In float64."""
    assert isinstance(x, Number)
    numbers = code.constant(np.array([SQRT2, LN2_HIGH, LN2_LOW, *reversed(TERMS)], np.float64))
    return number(code, op, [x], code.call("log_float32", x.name, numbers, str(len(TERMS)), file="log"))
