"""`at_most` on the gpu."""

from __future__ import annotations

from colonnade.backends.gpu.emit import Code, Emitted, Number, emits, number
from colonnade.ops.at_most import AtMost


@emits(AtMost)
def emit(op: AtMost, code: Code, x: Emitted) -> Number:
    """In 64 bits; a bound outside them is one that all or none keep."""
    assert isinstance(x, Number)
    bound = code.parameter(min(op.bound, 2**63 - 1) if op.bound >= -(2**63) else -(2**63))
    kept = code.parameter(int(op.bound >= -(2**63)))
    return number(code, op, [x], code.let(f"({x.name}.to(tl.int64) <= {bound}) & ({kept} != 0)"))
