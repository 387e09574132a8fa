"""`replace_outside` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import TRITON, Code, Emitted, Number, emits, number
from colonnade.ops.replace_outside import ReplaceOutside

LEAST, MOST = -(2**63), 2**63 - 1


@emits(ReplaceOutside)
def emit(op: ReplaceOutside, code: Code, x: Emitted) -> Number:
    """Compared in 64 bits."""
    assert isinstance(x, Number)
    lo, hi = max(op.lo, LEAST), min(op.hi, MOST)
    bounds = (lo, hi) if lo <= hi else (MOST, LEAST)
    least, most, default = (code.parameter(value) for value in (*bounds, op.default))
    wide = code.let(f"{x.name}.to(tl.int64)")
    inside = f"({wide} >= {least}) & ({wide} <= {most})"
    return number(code, op, [x], code.let(f"tl.where({inside}, {wide}, {default}).to({TRITON[x.dtype]})"))
