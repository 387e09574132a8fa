"""`wrap_negative` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import TRITON, Code, Emitted, Number, emits, number
from colonnade.ops.wrap_negative import WrapNegative


@emits(WrapNegative)
def emit(op: WrapNegative, code: Code, x: Emitted) -> Number:
    """In the dtype of x."""
    assert isinstance(x, Number)
    size = code.parameter(op.size)
    return number(code, op, [x], code.let(f"tl.where({x.name} < 0, {x.name} + {size}, {x.name}).to({TRITON[x.dtype]})"))
