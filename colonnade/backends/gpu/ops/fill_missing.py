"""`fill_missing` on the gpu."""

from __future__ import annotations

import numpy as np

from colonnade.backends.gpu.emit import TRITON, Code, Emitted, Number, emits, number
from colonnade.ops.fill_missing import FillMissing


@emits(FillMissing)
def emit(op: FillMissing, code: Code, x: Emitted) -> Number:
    """The fill is data."""
    assert isinstance(x, Number)
    if op.missing is None:
        fill = code.once(f"tl.load({code.constant(np.array([op.fill], np.float32))})")
        is_missing = f"{x.name} != {x.name}"
    else:
        fill, is_missing = code.parameter(int(op.fill)), f"{x.name} == {code.parameter(op.missing)}"
    return number(code, op, [x], code.let(f"tl.where({is_missing}, {fill}, {x.name}).to({TRITON[x.dtype]})"))
