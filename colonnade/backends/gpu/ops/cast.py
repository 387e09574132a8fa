"""`cast` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import TRITON, Code, Emitted, Number, emits, number
from colonnade.ops.cast import BOUNDS, Cast


@emits(Cast)
def emit(op: Cast, code: Code, x: Emitted) -> Number:
    """A plain conversion; floats that do not fit an integer go through a check."""
    assert isinstance(x, Number)
    if op.to == x.dtype:
        return number(code, op, [x], x.name)
    if x.dtype.startswith("float") and op.to in BOUNDS:
        return number(code, op, [x], code.call(f"float_to_{op.to}", x.name, file="casts"))
    return number(code, op, [x], code.let(f"{x.name}.to({TRITON[op.to]})"))
